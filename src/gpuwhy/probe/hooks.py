"""Where the probe holds on to the program: what is hooked as each module gets imported, and what Python itself tells.

Nothing is imported that the program does not import. A module's hooks are set right after it was executed, so that
whoever imports a name from it gets the watched one.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import compiling, forward, loader, optimizer, others, saving
from .wrap import hide

if TYPE_CHECKING:
    from .recorder import Recorder

Hook = Callable[["Recorder", ModuleType], None]
HOOKS: dict[str, Hook] = {
    "torch.utils.data.dataloader": loader.hook,
    "torch.optim.optimizer": optimizer.hook,
    "torch.nn.modules.module": forward.hook_module,
    "torch.cuda.graphs": forward.hook_graphs,
    "torch.serialization": saving.hook_torch,
    "torch.distributed.checkpoint.state_dict_saver": saving.hook_distributed,
    "safetensors.torch": saving.hook_safetensors,
    "torch.autograd.profiler": others.hook_autograd,
    "torch.profiler.profiler": others.hook_profiler,
    "torch._dynamo.callback": compiling.hook,
    "transformers.generation.utils": forward.hook_generate,
}


def watch_imports(recorder: Recorder) -> None:
    """Set the hooks of what is imported already, and of the rest when it is."""
    recorder.journal.note("begin")
    for name, hook in HOOKS.items():
        module = sys.modules.get(name)
        if module is not None:
            recorder.guard(hook, recorder, module)
    sys.meta_path.insert(0, Watch(recorder))
    recorder.collections.watch()
    atexit.register(recorder.end)


class Watch(MetaPathFinder):
    """Finds nothing itself: asks the other finders, and has a module's hook called when it has been executed."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, whose loader tells when it is done."""
        if self.asking or (fullname != "torch" and fullname not in HOOKS) or not self.recorder.is_watching:
            return None
        self.asking = True
        try:
            from importlib.util import find_spec

            spec = find_spec(fullname)
        except (ImportError, ValueError):
            return None
        finally:
            self.asking = False
        if spec is not None and spec.loader is not None:
            self.recorder.guard(_tell, self.recorder, fullname, spec.loader)
        return spec


def _tell(recorder: Recorder, name: str, its_loader: Any) -> None:
    """Have the hook called after the loader has executed the module."""
    execute = its_loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del its_loader.exec_module  # the loader is as it was
        start = time.monotonic_ns()
        try:
            execute(module)
        except BaseException as error:
            hide(error)
            raise
        if name == "torch":
            recorder.guard(_torch_is_there, recorder, module, start)
        else:
            recorder.guard(HOOKS[name], recorder, module)

    its_loader.exec_module = exec_module


def _torch_is_there(recorder: Recorder, torch: ModuleType, start: int) -> None:
    recorder.home = get_ident()
    recorder.journal.note("torch", version=str(getattr(torch, "__version__", None)), begun=start)
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:  # others show themselves with their first step
        recorder.journal.flush(time.monotonic_ns())
