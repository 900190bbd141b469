"""Private names of other libraries: a module for each library, with the versions it was read in."""
