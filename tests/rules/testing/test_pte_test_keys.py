"""The key of a program's test: the effects of its device and of its attributes `runtime` and `gpus`."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import modelbuild
from modelbuild.actions import Action, FileEntry, SourceArtifact, StagedInput
from modelbuild.analysis.rules import load_rules
from modelbuild.code.step_sources import StepCode
from modelbuild.errors import LoadingError
from modelbuild.execution.keys import key_of, material_of
from modelbuild.execution.resolver import Resolver
from modelbuild.rule_runner import RuleRunner
from modelbuild.session.source_files import Sources
from modelbuild.store.digests import digest_file
from modelbuild.store.local import open_store
from tests.program_build import program_build

TEST = """
[[pte_test]]
name = "program_test"
program = ":program"
model = ":model"
device = ":device"
cases = [{ name = "drawn", generator = { seed = 1 } }]
"""
ARCHIVE = 'runtime = { archive = "runtime.tar" }\n'
SAME = FileEntry(digest_file(Path(__file__)))  # represents outputs of earlier actions

Actions = Callable[..., dict[str, Action]]


def build_file(more: str = "", device: str = "", test: str = TEST) -> str:
    return program_build('{ type = "portable" }', entry="net.py:Net", device=device) + test + more


@pytest.fixture
def actions(tmp_path: Path) -> Actions:
    """Return the actions of the test, by mnemonic."""

    def declared(
        more: str = "", device: str = "", owner: str = "program_test", test: str = TEST, test_filter: str = ""
    ) -> dict[str, Action]:
        files = {"BUILD.toml": build_file(more, device, test), "net.py": ""}
        runner = RuleRunner(tmp_path, files, test_filter=test_filter)
        return {action.mnemonic: action for action in runner.target(f"//:{owner}").actions.values()}

    return declared


@pytest.fixture
def keys(tmp_path: Path, actions: Actions) -> Callable[..., dict[str, str]]:
    """Return their keys for a content of runtime.tar."""

    def keyed(
        more: str = "", device: str = "", runtime: str = "one", test: str = TEST, test_filter: str = ""
    ) -> dict[str, str]:
        (tmp_path / "runtime.tar").write_text(runtime)

        def staged(action: Action) -> list[StagedInput]:
            return [
                StagedInput(
                    each.name, each.path, None, FileEntry(store.put_bytes((tmp_path / each.artifact.path).read_bytes()))
                )
                if isinstance(each.artifact, SourceArtifact)
                else StagedInput(each.name, each.path, None, SAME)
                for each in action.inputs
            ]

        roots = {"modelbuild": Path(modelbuild.__file__).parent, **load_rules(tmp_path, ()).packages}
        with open_store(tmp_path / "store") as store:
            making = Resolver(StepCode(roots), tmp_path, store.read_bytes, Sources(tmp_path, store))
            declared = actions(more, device, test=test, test_filter=test_filter)
            return {name: key_of(material_of(making.resolve(each, staged(each)))) for name, each in declared.items()}

    return keyed


def test_the_archives_content_is_in_the_key_where_it_runs_the_program(keys: Any) -> None:
    assert keys(ARCHIVE)["test"] == keys(ARCHIVE)["test"]
    assert len({keys()["test"], keys(ARCHIVE)["test"], keys(ARCHIVE, runtime="other")["test"]}) == 3
    assert keys() == keys(runtime="other")
    assert keys(ARCHIVE)["bisect"] != keys(ARCHIVE, runtime="other")["bisect"]


def test_the_limit_of_an_estimate_is_in_the_test_s_key_alone(keys: Any) -> None:
    latency = 'latency = {{ max = {{ ":device" = "{}" }}, estimated = true }}\n'
    made = [keys(), keys(latency.format("1 ms")), keys(latency.format("2 ms"))]
    assert len({each["test"] for each in made}) == 3
    assert len({each["bisect"] for each in made}) == 1


def test_libraries_besides_the_runtime_are_in_the_key(keys: Any) -> None:
    library = '{{ file = "net.py", version = "{}", license = "{}" }}'
    given = ["", *(library.format(*each) for each in (("1.0", "a"), ("1.1", "a"), ("1.0", "b")))]
    runtime = 'runtime = {{ archive = "runtime.tar", libraries = [{}] }}\n'
    assert len({keys(runtime.format(each))["test"] for each in given}) == len(given)


def test_accuracies_and_their_samples_are_in_the_test_s_key_alone(keys: Any) -> None:
    data = '[[dataset]]\nname = "data"\nfiles = { x = ["net.py"], label = ["net.py"] }\n'
    other = data.replace('x = ["net.py"]', 'x = ["MODELBUILD.toml"]')
    function = 'srcs = ["net.py"]\n'
    tables = [
        '{ output = "y", top = 1, min = 0.5 }',
        '{ output = "y", top = 2, min = 0.5 }',
        '{ output = "z", top = 1, min = 0.5 }',
        '{ output = "y", top = 1, max = 0.5 }',
        '{ output = "y", top = 1, label = "label", max_loss = 0.5 }',
        '{ output = "y", top = 1, label = "label", max_loss = 0.4 }',
        '{ output = "y", measure = "cosine", min = 0.5 }',
        '{ output = "y", measure = "max_error", min = 0.5 }',
        '{ entry = "net.py:one", min = 0.5 }',
        '{ entry = "net.py:two", min = 0.5 }',
        '{ measure = "map", output = "y", scores = "y", label = "x", min = 1 }',
        '{ measure = "map", output = "y", scores = "z", label = "x", min = 1 }',
        '{ measure = "map", output = "y", scores = "y", label = "x", min = 1, classes = "y", label_classes = "x" }',
        '{ measure = "map", output = "y", scores = "y", label = "x", min = 1, classes = "z", label_classes = "x" }',
        '{ measure = "map", output = "y", scores = "y", label = "x", min = 1, classes = "y", label_classes = "label" }',
    ]
    made = [keys(f'{function}accuracy = {{ dataset = ":data", metrics = [{each}] }}\n{data}') for each in tables]
    made += [keys(f'{function}accuracy = {{ dataset = ":data", metrics = [{tables[0]}] }}\n{other}'), keys(function)]
    assert len({each["test"] for each in made}) == len(made)
    assert len({each["bisect"] for each in made}) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('accuracy = { metrics = [{ output = "y", top = 1, min = 1 }] }', "lacks the attribute 'dataset'"),
        ('accuracy = { dataset = ":data" }', "lacks the attribute 'metrics'"),
        (
            'accuracy = { dataset = ":data", metric = [] }',
            "unknown attribute 'metric' of 'accuracy'; did you mean 'metrics'?",
        ),
        ("{ min = 1.0 }", "expected one of 'top', 'measure' and 'entry'"),
        ('{ top = 1, measure = "cosine", output = "y", min = 1.0 }', "expected one of 'top', 'measure' and 'entry'"),
        ("{ top = 1, min = 1.0 }", "expected 'output' with 'top' or 'measure' only"),
        (
            '{ measure = "cosine", output = "y", label = "x", min = 1.0 }',
            "expected 'label' with 'top' or 'map' only",
        ),
        ('{ measure = "map", output = "y", max = 1.0 }', "'map' needs right answers; expected 'label' as well"),
        ('{ measure = "map", output = "y", label = "x", min = 1.0 }', "expected 'scores' with 'map', and with it only"),
        (
            '{ top = 1, output = "y", label = "x", classes = "y", max = 1 }',
            "expected 'classes' with 'map' only",
        ),
        (
            '{ measure = "map", output = "y", scores = "y", label = "x", classes = "y", min = 1.0 }',
            "expected both 'classes' and 'label_classes', or neither",
        ),
        ('{ top = 1, output = "y" }', "expected 'min', 'max' or 'max_loss'"),
        ('{ top = 1, output = "y", max_loss = 0.1 }', "expected 'max_loss' with 'label' or 'entry' only"),
        ('{ top = 1, output = "y", label = "z", min = 1.0 }', "':data' has no files of the label 'z'"),
        ('{ entry = "nett.py:f", min = 1.0 }', "no file 'nett.py' in //; did you mean 'net.py'?"),
    ],
)
def test_accuracies_that_contradict_themselves(actions: Actions, text: str, problem: str) -> None:
    data = '\n[[dataset]]\nname = "data"\nfiles = { x = ["net.py"] }\n'
    given = text if text.startswith("accuracy") else f'accuracy = {{ dataset = ":data", metrics = [{text}] }}'
    with pytest.raises(LoadingError) as error:
        actions(given + data)
    assert str(error.value).endswith(problem)


def test_how_many_gpus_the_test_takes_is_in_the_key(keys: Any) -> None:
    assert len({keys(ARCHIVE + more)["test"] for more in ("", "gpus = 1", "gpus = 2")}) == 3


def test_the_gpu_that_the_device_names_is_in_the_key(keys: Any) -> None:
    devices = ["", *(f'compute_capabilities = ["{each}"]' for each in ("8.6", "9.0"))]
    devices += [f"{devices[1]}\ngpu = 1", 'compute_capabilities = ["8.6", "9.0"]']
    assert len({keys(ARCHIVE, device)["test"] for device in devices}) == len(devices)


def test_without_an_archive_the_installed_runtime_is_a_tool(actions: Actions, keys: Any, tmp_path: Path) -> None:
    (tmp_path / "runtime.tar").touch()
    installed, archive = (actions(text)["test"] for text in ("", ARCHIVE))
    assert {"modelbuild-runtime", "modelbuild_runtime_native"} & set(installed.tools)
    assert installed.params["installed"] == "modelbuild_runtime_native"
    assert not {"modelbuild-runtime", "modelbuild_runtime_native"} & set(archive.tools)
    assert archive.params["installed"] is None
    assert keys("")["test"] != keys(ARCHIVE)["test"]


def test_a_program_of_another_architecture_is_run_by_its_runtime_if_that_is_installed(
    actions: Actions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    without = actions(OTHER.replace("aarch64", other), owner="without_device")["test"]
    assert without.params["installed"] is None
    (tmp_path / f"modelbuild_runtime_{other}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with_runtime = actions(OTHER.replace("aarch64", other), owner="without_device")["test"]
    assert with_runtime.params["installed"] == f"modelbuild_runtime_{other}"
    assert f"modelbuild-runtime-{other.replace('_', '-')}" in with_runtime.tools


def test_workers_are_asked_for_a_gpu_of_the_devices_lowest_capability(actions: Actions, tmp_path: Path) -> None:
    (tmp_path / "runtime.tar").touch()
    device = 'compute_capabilities = ["12.0", "8.9"]'
    takes = actions(f"{ARCHIVE}gpus = 1", device)["test"].resources
    assert (takes.gpu, takes.compute_capability) == (1, "8.9")
    takes = actions(ARCHIVE, device)["test"].resources
    assert (takes.gpu, takes.compute_capability) == (0, "")


OTHER = """
[[device_target]]
name = "other"
arch = "aarch64"
[[pte_program]]
name = "for_other"
model = ":model"
stack = ":stack"
device = ":other"
[[pte_test]]
name = "without_device"
program = ":for_other"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 1 } }]
"""


def test_the_architecture_is_that_of_the_programs_device(actions: Actions) -> None:
    assert actions(OTHER, owner="without_device")["test"].params["arch"] == "aarch64"
    assert actions(OTHER)["test"].params["arch"] == "x86_64"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (ARCHIVE, "no file 'runtime.tar' in //; `make runtime` writes the C++ runtime's archive, build/runtime.tar"),
    ],
)
def test_conflicts_are_errors_with_the_command_that_helps(actions: Actions, more: str, line: str) -> None:
    with pytest.raises(LoadingError) as raised:
        actions(more)
    assert raised.value.message.startswith(line)
    assert raised.value.location is not None
    written = build_file(more).splitlines()[raised.value.location.line - 1]
    assert written.startswith(more.splitlines()[-1].partition(" ")[0])


SIZED = """
[[pte_test]]
name = "sized"
program = ":program"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 1, sizes = { batch = 2 } } }]
"""


def test_a_size_of_a_dimension_that_the_model_has_not_is_an_error(actions: Actions) -> None:
    with pytest.raises(LoadingError, match="the model has no dynamic dimension 'batch'") as raised:
        actions(SIZED, owner="sized")
    assert raised.value.location is not None
    written = build_file(SIZED).splitlines()[raised.value.location.line - 1]
    assert written[raised.value.location.column - 1 :].startswith("batch")


CASES = """
[[pte_test]]
name = "program_test"
program = ":program"
model = ":model"
cases = [{inputs}]
{more}
"""
DRAWN = '{ name = "a", generator = { seed = 1 } }'


@pytest.mark.parametrize(
    ("inputs", "more"),
    [
        ('{ name = "a", generator = { seed = 1, calls = 2 } }', ""),
        ('{ name = "a", generator = { seed = 1, count = 2 } }', ""),
        ('{ name = "a", files = { x = "x.npy" } }', ""),
        ('{ name = "a", calls = [{ x = "x.npy" }, { x = "x.npy" }] }', ""),
        ('{ name = "a", calls = [{ x = "x.npy" }, { x = "y.npy" }] }', ""),
        ('{ name = "a", calls = [{ x = "x.npy" }, { x = "x.npy" }, { x = "x.npy" }] }', ""),
        (DRAWN, "tolerance = { abs = 1e-4 }"),
        (DRAWN, "tolerance = { rel = 1e-4 }"),
        (DRAWN, 'metrics = [{ output = "y", top = 1, min = 1 }]'),
        (DRAWN, 'metrics = [{ output = "y", top = 2, min = 1 }]'),
        (DRAWN, 'metrics = [{ output = "z", top = 2, min = 1 }]'),
        (DRAWN, 'metrics = [{ output = "y", top = 2, min = 0.5 }]'),
    ],
)
def test_calls_tolerances_and_agreements_are_in_the_keys_of_the_test_and_its_bisection(
    keys: Any, tmp_path: Path, inputs: str, more: str
) -> None:
    for name in ("x.npy", "y.npy"):
        (tmp_path / name).write_text(name)
    plain, other = (
        keys(test=CASES.replace("{inputs}", i).replace("{more}", m)) for i, m in ((DRAWN, ""), (inputs, more))
    )
    assert plain["test"] != other["test"]
    assert plain["bisect"] != other["bisect"]


@pytest.mark.parametrize(
    ("inputs", "more", "line"),
    [
        ('{ name = "a" }', "", "case 'a': expected one of 'files', 'calls', 'generator' and 'steps'"),
        (
            '{ name = "a", files = { x = "x.npy" }, calls = [{ x = "x.npy" }] }',
            "",
            "case 'a': expected one of 'files', ",
        ),
        ('{ name = "a", calls = [{ x = "x.npy" }, {}] }', "", "call 2 of case 'a': no file for the input 'x'"),
        ('{ name = "a", calls = [{ y = "x.npy" }] }', "", "the model has no input 'y'"),
        (DRAWN, "metrics = [{ min = 1 }]", "attribute 'metrics[0]': expected 'entry' or 'top'"),
        (DRAWN, "metrics = [{ top = 1, min = 1 }]", "attribute 'metrics[0]': expected 'top' and 'output' together"),
        (DRAWN, 'metrics = [{ top = 1, output = "y" }]', "attribute 'metrics[0]': expected 'min' or 'max'"),
        (
            DRAWN,
            'metrics = [{ entry = "net.py:f", output = "y", min = 1 }]',
            "attribute 'metrics[0]': expected 'top' and ",
        ),
    ],
)
def test_invalid_cases_and_metrics(actions: Actions, tmp_path: Path, inputs: str, more: str, line: str) -> None:
    (tmp_path / "x.npy").touch()
    with pytest.raises(LoadingError) as raised:
        actions(test=CASES.replace("{inputs}", inputs).replace("{more}", more))
    assert raised.value.message.startswith(line)
    assert raised.value.location is not None


def test_the_filter_of_cases_is_in_the_key_of_a_test_that_has_a_matching_case(actions: Actions, keys: Any) -> None:
    several = CASES.replace("{inputs}", '{ name = "a", generator = { seed = 1, count = 3 } }').replace("{more}", "")
    filters = ("", "a", "a[1]", "a[[]*")
    found = {test_filter: keys(test=several, test_filter=test_filter) for test_filter in filters}
    assert len({each["test"] for each in found.values()}) == len({each["bisect"] for each in found.values()}) == 4
    for test_filter in ("b", "a[3]", "a?"):
        assert actions(test=several, test_filter=test_filter) == {}


def test_budgets_are_no_part_of_a_filtered_test(actions: Actions) -> None:
    more = "limits = { bytes = 5 }\nexpect_backends = { first = 'portable' }\n"
    whole, part = (actions(more, test_filter=test_filter)["test"].params for test_filter in ("", "drawn"))
    assert (whole["budgets"], part["budgets"], part["backends"]) == ({"limits.bytes": 5}, {}, {})


SEQUENCE = """
[[torch_model]]
name = "module"
entry = "net.py:Net"
[torch_model.methods.write]
inputs = [{ name = "x", shape = ["n"], dtype = "float32" }, { name = "row", shape = [1], dtype = "int64" }]
dynamic = { n = { min = 1, max = 8 } }
outputs = ["y", "best"]
[torch_model.methods.read]
inputs = [{ name = "z", shape = [2], dtype = "float32" }]
outputs = ["out"]
[[torch_model]]
name = "reader"
entry = "net.py:Reader"
inputs = [{ name = "z", shape = [2], dtype = "float32" }]
outputs = ["out"]
[[pte_program]]
name = "sequence"
model = ":module"
stack = ":stack"
[[pte_test]]
name = "program_test"
program = ":sequence"
model = ":module"
{more}
cases = [{ name = "a", steps = [{steps}] }]
"""
WRITE = 'method = "write", generator = { seed = 1 }, count = { row = 0 }'
READ = 'method = "read", feed = { z = { output = "y" } }'


def sequence(write: str = WRITE, read: str = READ, more: str = "", model: str = '":module"') -> str:
    steps = ", ".join(f"{{ {each} }}" for each in (write, read))
    text = SEQUENCE.replace("{steps}", steps).replace("{more}", more)
    program, test = text.split("[[pte_test]]")
    return f"{program}[[pte_test]]" + test.replace('model = ":module"', f"model = {model}")


@pytest.mark.parametrize(
    "given",
    [
        {"write": f"{WRITE}, calls = 2"},
        {"write": WRITE.replace("row = 0", "row = 1")},
        {"write": WRITE.replace("seed = 1", "seed = 2")},
        {"write": WRITE.replace("seed = 1", "seed = 1, sizes = { n = 3 }")},
        {"write": f'{WRITE}, files = {{ x = "x.npy" }}'},
        {"write": f'{WRITE}, files = {{ x = "y.npy" }}'},
        {"write": READ.replace("feed", "generator = { seed = 1 } #").partition(" #")[0], "read": WRITE},
        {"read": READ.replace('"y"', '"best"')},
        {"read": READ.replace('"y"', '"y", argmax = true')},
        {"model": '{ write = ":module", read = ":reader" }'},
        {"more": 'method = "write"'},
    ],
)
def test_steps_are_in_the_keys_of_the_test_and_its_bisection(keys: Any, tmp_path: Path, given: dict[str, str]) -> None:
    for name in ("x.npy", "y.npy"):
        (tmp_path / name).write_text(name)
    other = keys(test=sequence(**given))
    plain = keys(test=sequence())
    assert plain["test"] != other["test"]
    assert plain["bisect"] != other["bisect"]
    if "files" in given.get("write", ""):
        (tmp_path / "x.npy").write_text("other")
        (tmp_path / "y.npy").write_text("other")
        assert keys(test=sequence(**given))["test"] != other["test"]


def test_a_test_has_only_the_methods_that_it_calls(actions: Actions, keys: Any) -> None:
    alone = sequence().replace(f", {{ {READ} }}", "")
    params = actions(test=alone)["test"].params
    assert (list(params["methods"]), params["method"]) == (["write"], "write")
    assert keys(test=alone) == keys(test=alone.replace("shape = [2]", "shape = [3]"))
    params = actions(test=sequence())["test"].params
    assert "method" not in params
    assert [(name, each["module"], each["inputs"]) for name, each in params["methods"].items()] == [
        ("write", 0, ""),
        ("read", 0, ""),
    ]
    apart = actions(test=sequence(model='{ write = ":module", read = ":reader" }'))["test"].params
    assert apart["methods"]["read"]["module"] == 1


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"read": READ.replace('"read"', '"raed"')}, "':sequence' has no method 'raed'; did you mean 'read'?"),
        ({"more": 'method = "wrte"'}, "':sequence' has no method 'wrte'; did you mean 'write'?"),
        (
            {"model": '{ write = ":module", reed = ":reader" }'},
            "':sequence' has no method 'reed'; did you mean 'read'?",
        ),
        ({"write": READ}, "step 1 of case 'a': no call is before it; expected 'z' in 'files' or 'count'"),
        (
            {"read": READ.replace('"y"', '"bets"')},
            "step 2 of case 'a': no call before it returns 'bets'; did you mean 'best'?",
        ),
        (
            {"read": READ.replace('"y"', '"out"')},
            "step 2 of case 'a': no call before it returns 'out'; expected y, best",
        ),
        ({"read": READ.replace("z =", "x =")}, "the model has no input 'x'; expected z"),
        ({"write": WRITE.replace("row", "raw")}, "the model has no input 'raw'; did you mean 'row'?"),
        (
            {"write": f'{WRITE}, files = {{ row = "net.py" }}'},
            "step 1 of case 'a': the input 'row' is in 'files' and in ",
        ),
        (
            {"write": 'method = "write", count = { row = 0 }'},
            "step 1 of case 'a': no value for the input 'x'; expected it in 'files', 'feed' or 'count', or a 'gen",
        ),
        (
            {"write": WRITE.replace("seed = 1", "seed = 1, sizes = { m = 1 }")},
            "the model has no dynamic dimension 'm'; expected n",
        ),
        ({"write": WRITE.replace("seed = 1", "seed = 1, range = [2, 1]")}, "expected [lowest, highest]"),
        (
            {"write": WRITE.replace('method = "write", ', "")},
            "':sequence' has several methods; expected 'method', one of: read, write",
        ),
        (
            {
                "write": 'method = "read", generator = { seed = 1 }',
                "read": READ.replace("y", "out"),
                "more": 'method = "write"',
            },
            "no case calls 'write'; expected none, or one of: read",
        ),
        (
            {"more": "tolerance = { outputs = { bets = { abs = 1 } } }"},
            "the model has no output 'bets'; did you mean 'best'?",
        ),
        (
            {"more": 'accuracy = { dataset = ":data", metrics = [{ output = "y", top = 1, min = 1 }] }'},
            "accuracy is that of one method; expected 'method', one of: write, read",
        ),
    ],
)
def test_a_mistake_in_a_step_has_its_place(actions: Actions, given: dict[str, str], line: str) -> None:
    data = '[[dataset]]\nname = "data"\nfiles = { z = ["net.py"] }\n'
    with pytest.raises(LoadingError) as raised:
        actions(test=sequence(**given) + data)
    assert raised.value.message.startswith(line)
    assert raised.value.location is not None


def test_the_place_of_a_step_s_method_is_in_its_table(actions: Actions) -> None:
    test = sequence(read=READ.replace('"read"', '"raed"'))
    with pytest.raises(LoadingError) as raised:
        actions(test=test)
    place = raised.value.location
    assert place is not None
    written = build_file(test=test).splitlines()[place.line - 1][place.column - 1 :]
    assert written.startswith('method = "raed"')


def test_a_test_needs_a_model_of_each_method(actions: Actions) -> None:
    with pytest.raises(LoadingError, match="no model of the method 'write' is given; expected the label of a torch_"):
        actions(test=sequence(model='{ read = ":reader" }'))
