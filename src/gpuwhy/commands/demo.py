"""`gpuwhy demo`: explain a real profile that ships with gpuwhy; needs no GPU."""

from __future__ import annotations

from importlib.resources import as_file, files

from gpuwhy.commands.options import AsJson, Color, Html, Output

INTRO = """A real profile: a small model trained on an NVIDIA H200, recorded with PyTorch 2.11.
It comes with gpuwhy; no GPU is needed to read it."""

NEXT = """Explain your own:
  from torch.profiler import ProfilerActivity, profile, schedule
  with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
               schedule=schedule(wait=1, warmup=3, active=6, repeat=1),
               record_shapes=True, with_stack=True,
               on_trace_ready=lambda p: p.export_chrome_trace("profile.json.gz")) as prof:
      for batch in loader: train_step(batch); prof.step()
then
  gpuwhy explain profile.json.gz"""


def demo(
    as_json: AsJson = False,
    output: Output = None,
    html: Html = None,
    color: Color = None,
) -> None:
    """Explain a real H200 profile that ships with gpuwhy."""
    from gpuwhy.api import explained, load
    from gpuwhy.commands.output import Wanted, emit, write

    plain = not as_json and output is None and html != "-"
    if plain:
        write(INTRO + "\n\n")
    with as_file(files("gpuwhy") / "data" / "demo.pt.trace.json.gz") as path:
        found = explained(load(str(path)))
    emit(found, Wanted(as_json, output, html, color=color))
    if plain:
        write("\n" + NEXT + "\n")
