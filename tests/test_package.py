"""The house as a whole: which module may know which, what an import costs, and that the examples are true."""

import ast
import doctest
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mamlrl_core

ROOT = Path(mamlrl_core.__file__).parent
PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())

# A module may import from the floors below its own, and from nowhere else in the package.
FLOORS = [
    {"__init__"},
    {"seeding", "envs.base", "envs.engine", "envs.processes"},
    {"envs.bandit", "envs.navigation", "envs.tabular_mdp", "envs.locomotion", "envs.vec_env"},
    {"envs.serial_vec_env", "envs.batched_vec_env"},
    {"envs.env_worker"},
    {"envs.subproc_vec_env", "envs.trial"},
    {"envs.promises", "envs.dynamics_promises"},
    {"envs.checking"},
    {"envs"},
    {"policies", "episodes", "optimization", "config", "metrics", "checkpoint", "camera"},
    {"advantages"},
    {"baseline", "sampler"},
    {"metalearner"},
    {"training"},
    {"evaluation"},
    {"comparison", "rendering"},
    {"__main__"},
]
FLOOR = {module: height for height, floor in enumerate(FLOORS) for module in floor}


def module_files():
    """Name within the package -> file."""
    files = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = path
    return files


FILES = module_files()


def imports_of(name):
    """The package's modules that ``name`` imports, also inside functions."""
    package = ["mamlrl_core", *name.split(".")]
    if FILES[name].name != "__init__.py" or name == "__init__":
        package.pop()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == "mamlrl_core":
                yield in_package(target)


def in_package(target):
    """The module that holds ``target``, which may be one itself."""
    inner = target.removeprefix("mamlrl_core").removeprefix(".")
    while inner and inner not in FILES:
        inner = inner.rpartition(".")[0]
    return inner or "__init__"


def test_the_floors_hold_every_module():
    assert set(FLOOR) == set(FILES), "give every module a floor in FLOORS"


@pytest.mark.parametrize("name", sorted(FILES))
def test_imports_point_one_way(name):
    upward = {target for target in imports_of(name) if FLOOR[target] >= FLOOR[name]}
    assert not upward, f"{name} reaches up, or sideways, to {sorted(upward)}"


def test_importing_costs_no_torch():
    code = "import mamlrl_core.envs, mamlrl_core.__main__, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_without_mujoco_the_tests_can_still_be_collected():
    code = "import sys; sys.modules['mujoco'] = None; import pytest; "
    code += "sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', 'tests']))"
    command = [sys.executable, "-c", code]
    collected = subprocess.run(command, cwd=ROOT.parent, capture_output=True, timeout=100)
    assert collected.returncode == 0, collected.stdout


def test_the_names_on_the_door_are_in_the_house():
    for name in mamlrl_core.__all__:
        assert getattr(mamlrl_core, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'MetaLeaner'"):
        mamlrl_core.MetaLeaner  # noqa: B018


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_module_is_one_room(name):
    assert len(FILES[name].read_text().splitlines()) <= 280


@pytest.mark.parametrize("name", sorted(set(FILES) - {"__init__"}))
def test_the_examples_in_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(f"mamlrl_core.{name}"))
    assert failed == 0


def test_data_files_are_packaged():
    globs = PROJECT["tool"]["setuptools"]["package-data"]["mamlrl_core"]
    packaged = {path for glob in globs for path in ROOT.glob(glob)}
    present = {p for p in ROOT.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert present == packaged != set()


def test_one_version():
    assert mamlrl_core.__version__ == PROJECT["project"]["version"]
