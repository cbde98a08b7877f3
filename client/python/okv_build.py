#!/usr/bin/env python3
"""Builds the wheel of the package okv with Python's standard library alone. The same sources give the same bytes. CMake
runs it, and pip, by pyproject.toml, which has all that the wheel says of itself."""

import argparse
import base64
import hashlib
import pathlib
import re
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first time that a ZIP file can name
FIELDS = {"Name": "name", "Version": "version", "Summary": "description", "License": "license",
          "Requires-Python": "requires-python"}


def project():
    """What pyproject.toml says: a line of text each. tomllib came with Python 3.11 only."""
    text = (HERE / "pyproject.toml").read_text()
    table = re.search(r"^\[project\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S).group(1)
    return dict(re.findall(r'^([\w-]+) = "(.*)"$', table, re.M))


def contents(known):
    """Names in the wheel, and their bytes."""
    info = f"{known['name']}-{known['version']}.dist-info"
    package = [*HERE.glob("okv/*.py"), HERE / "okv/py.typed"]
    files = {f"okv/{path.name}": path.read_bytes() for path in package}
    fields = "".join(f"{field}: {known[name]}\n" for field, name in FIELDS.items())
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\n{fields}".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: okv\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{info}/RECORD"
    lines = [f"{name},sha256={digest(files[name])},{len(files[name])}\n" for name in sorted(files)]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    return files


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel to the directory, and returns its name. Not compressed: versions of zlib differ."""
    known = project()
    name = f"{known['name']}-{known['version']}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        for path, data in sorted(contents(known).items()):
            entry = zipfile.ZipInfo(path, LONG_AGO)
            entry.create_system = 3  # Unix
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    return name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", metavar="DIRECTORY", help="where to write the wheel")
    build_wheel(parser.parse_args().directory)


if __name__ == "__main__":
    main()
