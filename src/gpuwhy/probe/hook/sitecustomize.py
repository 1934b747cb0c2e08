"""Python imports this when it starts, because `gpuwhy run` put this folder on PYTHONPATH: it loads the probe.

The folder is taken off the module path again, and the `sitecustomize` that would have been imported without it is.
Nothing that goes wrong here may show in the program.
"""

import sys


def _load_probe() -> None:
    import os
    from importlib.util import module_from_spec, spec_from_file_location

    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.environ.get("GPUWHY_RUN")
    if not folder or sys.version_info < (3, 8) or not os.path.isdir(folder):
        return
    home = os.path.dirname(here)
    # By its path: the program's environment need not have gpuwhy, and may have another version. And by a name without
    # a parent, which Python would import. The program's own `gpuwhy.step` finds it as what it is.
    names = "_gpuwhy_probe", "gpuwhy.probe"
    spec = spec_from_file_location(names[0], os.path.join(home, "__init__.py"), submodule_search_locations=[home])
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules.update(dict.fromkeys(names, module))
    try:
        spec.loader.exec_module(module)
        module.start(folder)
    except Exception:
        for name in names:
            sys.modules.pop(name, None)
        raise


def _import_the_other() -> None:
    """The sitecustomize of the program's environment. Where it has none, the error says so to Python, which takes this
    one for missing, too.
    """
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    __import__("sitecustomize")


try:
    _load_probe()
except Exception as error:
    import os as _os

    try:
        with open(_os.path.join(_os.environ["GPUWHY_RUN"], "problems.txt"), "a") as _file:
            _file.write("the probe could not be loaded: %s: %s\n" % (type(error).__name__, error))  # noqa: UP031
    except Exception:
        pass
_import_the_other()
