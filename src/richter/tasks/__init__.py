"""What networks learn: data with a target, made or real, each kind in its file. None of it needs torch."""

from richter.tasks.digits import digits as digits
from richter.tasks.gaussian_classes import gaussian_classes as gaussian_classes
from richter.tasks.images import cifar10 as cifar10
from richter.tasks.images import fashion_mnist as fashion_mnist
from richter.tasks.images import mnist as mnist
from richter.tasks.sparse_parity import SparseParity as SparseParity
from richter.tasks.step import step as step
from richter.tasks.task import Task as Task
from richter.tasks.teacher_student import TeacherStudent as TeacherStudent
from richter.tasks.teacher_student import teacher_student as teacher_student
