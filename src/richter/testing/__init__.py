"""What the tests of theories share: the laws, the zoo they are run on, the mutants that judge them, tolerances."""
