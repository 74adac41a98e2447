// An extender that decides nothing. The only program here whose source is ours, and that is beside this file.
module testbed/do-nothing-extender

go 1.26.0
