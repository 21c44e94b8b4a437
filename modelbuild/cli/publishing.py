"""Build, attest and publish a target: the work of `publish` and `release`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelbuild.api.providers import Release
from modelbuild.build_record.stale_targets import BuiltTarget
from modelbuild.cli.options import FILE, Command, gather
from modelbuild.cli.targets.one_target import needing_trust, signing_key
from modelbuild.errors import ExitCode
from modelbuild.events import Silent
from modelbuild.labels import Label
from modelbuild.publish.attachments import about_of, provenance_of, sbom_of, signatures_of
from modelbuild.publish.content import About, Content, read_files
from modelbuild.publish.destination import publish
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.report.text import write
from modelbuild.session.build import build
from modelbuild.session.plan import make_plan
from modelbuild.session.request import Request
from modelbuild.wording import count
from modelbuild.workspace.workspace import Workspace

if TYPE_CHECKING:
    from modelbuild.publish.content import Attachment, Published
    from modelbuild.publish.destination import Destination

VERSION = 1
_IMAGE = "org.opencontainers.image"

_OPTIONS = [
    click.option("--to", required=True, metavar="ADDRESS", help="oci://, s3://, gs://, az://, file:// or hf://."),
    click.option("--replace", is_flag=True, help="Move the tag, or replace the files, of other content."),
    click.option("--provenance/--no-provenance", default=True, help="Also publish the provenance."),
    click.option("--builder", metavar="URI", help="The builder's id; default: this machine's host name."),
    click.option("--sbom/--no-sbom", default=True, help="Also publish the bill of materials."),
    click.option("--key", type=FILE, metavar="FILE", help="Sign with this private key on P-256, in PEM."),
    click.option("--certificate", type=FILE, metavar="FILE", help="Certificate of the key, in PEM."),
    click.option("--certificate-chain", multiple=True, type=FILE, metavar="FILE", help="Intermediate certificates."),
]


@dataclass(frozen=True, slots=True)
class Publication:
    """The options of publishing, as the command line gives them."""

    to: str
    replace: bool
    provenance: bool
    builder: str | None
    sbom: bool
    key: Path | None
    certificate: Path | None
    certificate_chain: tuple[Path, ...]

    def at(self, folder: Path) -> Publication:
        """Return the options with paths relative to a folder."""
        chain = tuple(folder / each for each in self.certificate_chain)
        key, certificate = self.key and folder / self.key, self.certificate and folder / self.certificate
        return replace(self, key=key, certificate=certificate, certificate_chain=chain)


def publishing(function: Command) -> Command:
    """Add the options of publishing; the function gets them as one argument, `publication`."""
    return gather(function, _OPTIONS, "publication", [field.name for field in fields(Publication)], Publication)


def release_of(workspace: Workspace, request: Request) -> Release | None:
    """Return the request's target as a release; None for any other target."""
    (target,) = make_plan(workspace, request, Silent()).targets
    return next((provider for provider in target.providers if isinstance(provider, Release)), None)


def build_and_publish(
    workspace: Workspace, request: Request, publication: Publication, destination: Destination, version: str = ""
) -> ExitCode:
    """Build a target and publish it. Prints the address on stdout. Returns the code of a failed build."""

    quiet = request.display.only_results or bool(version)  # a release is built already
    with reporting(make_reporter(quiet=quiet, results=sys.stderr)) as reporter:
        built = build(workspace, request, reporter)
    if built.code != ExitCode.OK:
        return built.code
    content = _content(workspace, request, built.targets[0], publication, version)

    def say(line: str) -> None:
        if not request.display.only_results:
            write(sys.stderr, line)

    published = publish(content, destination, publication.replace, say)
    _print(request, published)
    return ExitCode.OK


def _content(
    workspace: Workspace, request: Request, built: BuiltTarget, publication: Publication, version: str
) -> Content:

    outputs = {path.rpartition("/")[2]: workspace.root / path for path in built.outputs}
    annotations = {}
    if version:
        annotations[f"{_IMAGE}.title"] = Label.parse(built.label).name
        annotations[f"{_IMAGE}.version"] = version
    attachments, about = _attachments(workspace, request, publication, outputs)
    about = replace(about, target=built.label, version=version)
    return Content(read_files(outputs), annotations, attachments, about)


def _attachments(
    workspace: Workspace, request: Request, publication: Publication, outputs: Mapping[str, Path]
) -> tuple[Sequence[Attachment], About]:
    """Return the documents to publish, and facts from their evidence. Raises EnvironmentProblem if they need a package
    that is not installed."""
    from modelbuild.trust.evidence import gather_evidence

    documents, about = [], About()
    if publication.provenance or publication.sbom:
        with reporting(make_reporter(quiet=True, results=sys.stderr)) as reporter:
            evidence = gather_evidence(workspace, request, reporter)
        about = about_of(evidence)
        if publication.provenance:
            documents.append(provenance_of(evidence, publication.builder))
        if publication.sbom:
            with needing_trust("--sbom"):
                documents.append(sbom_of(evidence))
    if publication.key is None:
        return documents, about
    with needing_trust("--key"):
        key = signing_key(publication.key, publication.certificate, publication.certificate_chain)
        return [*documents, *signatures_of(outputs, documents, key)], about


def _print(request: Request, published: Published) -> None:
    if request.display.json:
        click.echo(json.dumps({"version": VERSION, **asdict(published)}))
        return
    done = []
    if published.uploaded:
        done.append(f"{count(len(published.uploaded), 'file')} uploaded")
    if published.attached:
        done.append(f"{count(len(published.attached), 'document')} attached")
    if published.tagged:
        done.append("tagged")
    click.echo(f"{published.address}  {', '.join(done) or 'nothing to upload, this content is there already'}")
