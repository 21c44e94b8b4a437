"""The generated pages of docs/reference are those of the loaded rules and of the rules API."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import modelbuild.api
from modelbuild.api import Attrs, Context, rule
from modelbuild_rules import providers


@pytest.fixture(scope="module")
def generator(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", repository / "tools/reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(repository: Path, generator: ModuleType) -> None:
    for name, text in generator.pages().items():
        assert (repository / "docs/reference" / name).read_text() == text, "run python tools/reference_pages.py"


def test_a_new_attribute_is_on_the_page(generator: ModuleType) -> None:
    class MixAttrs(Attrs):
        """A mix."""

        parts: tuple[str, ...] = ("one",)
        """Parts of the mix."""

    @rule(attrs=MixAttrs)
    def mix(ctx: Context[MixAttrs]) -> tuple[()]:
        return ()

    page = generator.rules_page({"mix": mix})
    assert '- `parts` (strings, default `["one"]`): Parts of the mix.' in page


def test_equal_attributes_are_described_once(generator: ModuleType) -> None:
    class MixAttrs(Attrs):
        """A mix."""

        parts: tuple[str, ...] = ("one",)
        """Parts of the mix."""
        more: int
        """Further parts."""

    @rule(attrs=MixAttrs)
    def mix(ctx: Context[MixAttrs]) -> tuple[()]:
        return ()

    @rule(attrs=MixAttrs)
    def other(ctx: Context[MixAttrs]) -> tuple[()]:
        return ()

    page = generator.rules_page({"mix": mix, "other": other})
    assert page.count("Parts of the mix.") == page.count("Further parts.") == 1
    assert "- `more`, `parts`: as for [mix](#mix)" in page.partition("## other")[2]


def test_every_name_provider_and_member_of_a_context_is_on_the_page(generator: ModuleType) -> None:
    page = generator.api_page()
    headings = set(re.findall(r"^#+ (.+)$", page, re.MULTILINE))
    kinds = {name for name, kind in vars(providers).items() if getattr(kind, "made_by", ())}
    assert len(kinds) > 5
    assert set(modelbuild.api.__all__) | kinds <= headings
    members = {name for base in Context.__mro__ for name in vars(base) if not name.startswith("_")}
    described = set(re.findall(r"^`?((?:Context|Expander)\.\w+)\(", page, re.MULTILINE))
    assert described == {f"{'Context' if name in vars(Context) else 'Expander'}.{name}" for name in members}
    own = set(re.findall(r"self\.([a-z]\w*) = ", inspect.getsource(Context)))
    section = page.partition("### Context\n")[2].partition("\n### ")[0]
    assert own
    assert all(f"- `{name}`: " in section for name in own)


def test_the_flags_of_a_command_are_on_its_page(generator: ModuleType) -> None:
    page = generator.with_help("before\n<!--help:compare-->\nold\n<!--end-->\nafter\n", "../")
    assert page.startswith(
        "before\n<!--help:compare-->\n\n`modelbuild compare TARGET...`\n\nBuild and test targets in two"
    )
    assert page.endswith("\n\n<!--end-->\nafter\n")
    assert "\n- `--toolchain LABEL`: Build in this toolchain; give two.\n" in page
    assert "[flags of builds](../cli.md#flags-of-builds), except `--toolchain`" in page
    assert "--keep-going" not in page
    assert "old" not in page
    assert generator.with_help(page, "../") == page


def test_a_group_of_flags_is_listed_once(generator: ModuleType) -> None:
    page = generator.with_help("<!--help:flags for tests-->\n<!--end-->", "")
    assert "- `--cache-test-results / --no-cache-test-results`: " in page
    assert "- `--require-all`: " in page
    assert "--junit" not in page


def test_a_page_names_commands_that_exist(generator: ModuleType) -> None:
    with pytest.raises(KeyError, match="biuld"):
        generator.with_help("<!--help:biuld-->\n<!--end-->", "")
