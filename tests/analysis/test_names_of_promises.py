"""The file names at which a step finds outputs of expansions."""

from __future__ import annotations

from pathlib import Path

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Action, Output
from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.api.context import Expander
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import load_workspace

FILES = {
    "MODELBUILD.toml": 'rules = ["//listing"]\n',
    "listing/__init__.py": "",
    "listing/listed.py": """
from modelbuild.api import Attrs, Sources, rule

class ListedAttrs(Attrs):
    srcs: Sources

@rule(attrs=ListedAttrs)
def listed(ctx):
    ctx.action("list", step="list", inputs={"srcs": ctx.files(ctx.attrs.srcs)}, outputs=[])
    return ()
""",
    "listing/steps/__init__.py": "",
    "listing/steps/list.py": "",
    "net.py": "",
    "BUILD.toml": """
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2], dtype = "float32" }]
[[backend_stack]]
name = "stack"
backends = ["portable"]
[[pte_program]]
name = "net"
model = ":model"
stack = ":stack"
external_weights = true
[[listed]]
name = "list"
srcs = [":net"]
""",
}


def test_a_program_s_files_have_the_names_that_build_gives_them(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    workspace = load_workspace(tmp_path)
    rules = load_rules(tmp_path, workspace.config.rules)
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules)
    analyzer.analyze(Label("", "list"))
    action = analyzer.graph.nodes["//:list#list"]
    assert isinstance(action, Action)
    assert [item.path.rpartition("/")[2] for item in action.inputs] == [
        "net.pte",
        "net.ptd",
        "delegation.json",
        "signature.json",
        "verified.json",
    ]


def test_a_promise_without_a_name_for_steps_has_its_own() -> None:
    graph = ActionGraph()
    on = Expander(graph, "//:a", "rules")
    plan = on.action("plan", step="plan", outputs=[Output("plan", "plan.json")])["plan"]
    made = on.expand(reads=plan, promises=("log", Output("pte", "out/net.pte")), then=lambda inner, data: {})
    assert {name: graph.basename(artifact) for name, artifact in made.items()} == {"log": "log", "pte": "net.pte"}
