"""`python -m richter`."""

from richter.cli import main

raise SystemExit(main())
