"""`python3 -m sundry`."""

import sys

from sundry.cli import main

sys.exit(main())
