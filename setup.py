"""Build in a folder of its own, so that nothing is left in the checkout.

setuptools builds in `build/` and `gymbridge.egg-info/` beside the sources. There the next wheel
would find modules that were deleted in between. All other settings are in `setup.cfg`.
"""

import tempfile

import setuptools

with tempfile.TemporaryDirectory() as folder:
    setuptools.setup(options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}})
