"""Packages of the wheel, and the files that are no Python: pyproject.toml cannot say both."""

from pathlib import Path

from setuptools import find_namespace_packages, setup

# Folders of the checkout that an installed rftweb needs, in rftweb/files (rftweb/places.py).
FILES = ("templates", "static", "docs", "examples", "requirements")
CODE = ("apps", "rftweb", "workers")


def requirements(name: str) -> list[str]:
    """Return the requirements of requirements/NAME.in, without comments and other files."""
    lines = Path("requirements", f"{name}.in").read_text(encoding="utf-8").splitlines()
    stripped = (line.partition(" #")[0].strip() for line in lines)
    return [line for line in stripped if line and not line.startswith(("#", "-"))]


setup(
    packages=[
        *find_namespace_packages(include=[*CODE, *(f"{name}.*" for name in CODE)]),
        *(f"rftweb.files.{name}" for name in FILES),
    ],
    package_dir={f"rftweb.files.{name}": name for name in FILES},
    package_data={"": ["**/*"]},
    exclude_package_data={
        "": ["**/__pycache__/*", "**/node_modules/*"],
        "rftweb.files.docs": [
            f"screenshots/{name}" for name in ("*-dark.png", "*-phone-*.png", "*.gif")
        ],
    },
    install_requires=[*requirements("base"), *requirements("train"), "torch==2.13.0"],
)
