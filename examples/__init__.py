"""Programs that use meetcore as a library. The README beside this file lists them."""
