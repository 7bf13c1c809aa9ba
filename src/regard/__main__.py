"""``python -m regard`` is the command ``regard``."""

import sys

from regard.cli.main import main

sys.exit(main())
