"""Where batches are computed: a pool of processes here, a Dask cluster, any given executor, or this process."""

from __future__ import annotations

import abc
import contextlib
import math
import os
import pickle
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Self

from richter.errors import MissingExtraError, ParameterError, UnfinishedError, message, show
from richter.sweep.machine import cores, free_memory, single_threads

GUESS = 1 << 30  # bytes a worker is taken to need until the first has said
PATIENCE = "10s"  # for a Dask scheduler to answer


class AbstractEngine(contextlib.AbstractContextManager["AbstractEngine"]):
    """An executor that is opened, sized, replaced when it breaks, and closed."""

    name: str

    @property
    @abc.abstractmethod
    def executor(self) -> Executor:
        """The open executor."""

    @abc.abstractmethod
    def width(self) -> int:
        """How many batches to have under way now."""

    def parallel(self) -> int:
        """How many batches are computed at the same time."""
        return self.width()

    @abc.abstractmethod
    def renew(self) -> None:
        """Replace a broken executor, or say that it cannot be."""

    def learn(self, memory: int) -> None:  # noqa: B027 (most engines have nothing to learn)
        """Told after every batch how much memory its worker has held."""

    def ready(self, task: object) -> None:  # noqa: B027
        """Refuse work that cannot be carried to the workers, before any is lost."""


class Processes(AbstractEngine):
    """A pool of freshly spawned processes with one thread each: as many as cores and memory allow.

    The workers end when this process does, however it ends.
    """

    name = "process"

    def __init__(self, workers: int | None = None) -> None:
        """`workers` None: one for each core."""
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ParameterError(message("`workers`", "be a whole number ≥ 1", workers))
        self.workers = cores() if workers is None else workers
        self._need = 0
        self._threads = contextlib.ExitStack()
        self._pool: ProcessPoolExecutor | None = None
        self._ends: tuple[Connection, Connection] | None = None

    def __enter__(self) -> Self:
        self._threads.enter_context(single_threads())
        self._open()
        return self

    def __exit__(self, *problem: object) -> None:
        self._close()
        self._threads.close()

    @property
    def executor(self) -> Executor:
        """The pool."""
        assert self._pool is not None, "the engine is opened by `with`"
        return self._pool

    def width(self) -> int:
        """As many as fit into the memory; the first batches say how much one needs."""
        free = free_memory()
        if free is None or self._need == 0:
            return self.workers if free is None else max(1, min(self.workers, free // GUESS))
        return self._fits

    def learn(self, memory: int) -> None:
        """Allow as many workers as the memory that was free at the first answer holds."""
        if memory > self._need:
            free = free_memory()
            # What is free now is what remains beside the workers that already hold theirs.
            self._need = memory
            self._fits = self.workers if free is None else max(1, min(self.workers, 1 + math.floor(free / memory)))

    def renew(self) -> None:
        """A new pool."""
        self._close()
        self._open()

    def ready(self, task: object) -> None:
        """The function must be found by its name in another process."""
        try:
            pickle.dumps(task)
        except Exception as problem:
            function = getattr(task, "function", task)
            must = "be importable by name, not a lambda or a local function"
            do = f"Define it at the top of a module. ({' '.join(str(problem).split())})"
            raise ParameterError(message("the function of a sweep", must, show(function), do)) from None

    def _open(self) -> None:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        # The workers hold the ear of a pipe whose mouth is here alone: it falls silent when this process ends.
        self._ends = ear, mouth = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(self.workers, context, initializer=_settle, initargs=(ear,))

    def _close(self) -> None:
        if self._ends is not None:
            for end in reversed(self._ends):
                end.close()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._ends = None


def _settle(ear: Connection) -> None:
    """In a new worker: leave an interrupt to the driver, and end with it."""
    import signal
    import threading
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def listen() -> None:
        wait([ear])
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()


class Dask(AbstractEngine):
    """A Dask cluster: one at an address, or one of processes on this machine, on loopback alone, without a page."""

    name = "dask"

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        """`address` is like tcp://host:8786; None makes a local cluster of `workers`."""
        self.address, self.workers = address, workers
        self._asked, self._threads = -math.inf, 1
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise MissingExtraError('The engine `dask` needs distributed: pip install "richter[sweep]"') from None
        if self.address is None:
            self._open.enter_context(single_threads())
            cluster = self._open.enter_context(
                LocalCluster(
                    n_workers=self.workers or cores(),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",  # None would take a known port
                    scheduler_kwargs={"dashboard": False},
                    silence_logs=50,
                )
            )
            address: Any = cluster
        else:
            address = self.address
        try:
            self.client = self._open.enter_context(Client(address, timeout=PATIENCE, set_as_default=False))
        except (OSError, ValueError) as problem:
            self._open.close()
            do = "Start a scheduler there: dask scheduler; and workers: dask worker."
            must = "be the address of a Dask scheduler, dask://host:port"
            raise UnfinishedError(message("`--engine`", must, f"{self.address} ({problem})", do)) from None
        self._executor = self.client.get_executor(pure=False)
        return self

    def __exit__(self, *problem: object) -> None:
        self._executor.shutdown(wait=False)
        self._open.close()

    @property
    def executor(self) -> Executor:
        """The client as an executor."""
        made: Executor = self._executor
        return made

    def width(self) -> int:
        """Twice the threads of the cluster, so that no worker waits for us."""
        return 2 * self.parallel()

    def parallel(self) -> int:
        """The threads of the cluster, asked again every few seconds."""
        now = time.monotonic()
        if now - self._asked > 5:
            try:
                self._asked, self._threads = now, max(1, sum(self.client.nthreads().values()))
            except (OSError, RuntimeError):
                self.renew()
        return self._threads

    def renew(self) -> None:
        """The cluster replaces its own workers; a lost cluster is not ours to restart."""
        raise UnfinishedError("The Dask cluster was lost.")


class Given(AbstractEngine):
    """Any executor that the caller has opened and will close."""

    name = "executor"

    def __init__(self, executor: Executor, width: int | None = None) -> None:
        """`width`: how many batches to have under way; default twice the cores."""
        self._executor, self._width = executor, width or 2 * cores()

    def __exit__(self, *problem: object) -> None:
        """It stays open."""

    @property
    def executor(self) -> Executor:
        """The given one."""
        return self._executor

    def width(self) -> int:
        """As asked for."""
        return self._width

    def renew(self) -> None:
        """It is not ours to replace."""
        raise UnfinishedError("The given executor broke.")


class Here(AbstractEngine):
    """This process, one batch after another: for a function that uses all cores itself."""

    name = "here"

    def __exit__(self, *problem: object) -> None:
        """Nothing to close."""

    @property
    def executor(self) -> Executor:
        """One that does the work when it is submitted."""
        return _AtOnce()

    def width(self) -> int:
        """One."""
        return 1

    def renew(self) -> None:
        """It cannot break."""
        raise AssertionError("this process broke")


class _AtOnce(Executor):
    """An executor that computes on submission."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


def engine_of(engine: str | Executor | AbstractEngine | None, workers: int | None = None) -> AbstractEngine:
    """The engine that a word, an address or an executor means.

    >>> engine_of("dask://localhost:8786").address
    'tcp://localhost:8786'
    """
    if isinstance(engine, AbstractEngine):
        return engine
    if isinstance(engine, Executor):
        return Given(engine, workers)
    if engine is None or engine == "process":
        return Processes(workers)
    if engine == "here":
        return Here()
    if engine == "dask":
        return Dask(None, workers)
    if isinstance(engine, str) and engine.startswith(("dask://", "tcp://", "tls://")):
        return Dask(engine.replace("dask://", "tcp://", 1))
    must = "be process, here, dask, dask://host:port or an executor"
    raise ParameterError(message("the engine", must, show(engine)))
