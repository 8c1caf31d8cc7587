"""docs/alembic.md, followed literally with the command `alembic`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import TREE, the_block
from tests.docs.processes import environment
from tests.migrations import catalogues

PAGE = TREE / "docs" / "alembic.md"
MODELS = """
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
"""


def alembic(folder: Path, *arguments: str) -> str:
    """Run it to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "alembic", *arguments],
        cwd=folder,
        env=environment({"PYTHONPATH": str(folder)}),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def begun(folder: Path) -> None:
    """A project whose own tables have a migration, and then the page's."""
    alembic(folder, "init", "migrations")
    settings = folder / "alembic.ini"
    text = settings.read_text()
    assert "driver://user:pass@localhost/dbname" in text
    settings.write_text(text.replace("driver://user:pass@localhost/dbname", "sqlite:///shop.db"))
    (folder / "models.py").write_text(MODELS)
    env = folder / "migrations" / "env.py"
    assert env.read_text().count("\ntarget_metadata = None\n") == 1
    env.write_text(env.read_text().replace("\ntarget_metadata = None\n", f"\n{the_block(PAGE, 'env').text}\n"))
    identity = 'revision = "1"\ndown_revision = None\n\n'
    versions = folder / "migrations" / "versions"
    versions.joinpath("1_outbox.py").write_text(identity + the_block(PAGE, "migration").text)


@pytest.mark.slow
def test_the_page(tmp_path: Path) -> None:
    begun(tmp_path)
    printed = alembic(tmp_path, "upgrade", "head", "--sql")
    assert printed.count("CREATE TABLE IF NOT EXISTS fencepost_") == 5
    assert not (tmp_path / "shop.db").exists()
    alembic(tmp_path, "upgrade", "head")
    assert len(catalogues.sqlite(tmp_path / "shop.db")) > 6
    alembic(tmp_path, "revision", "--autogenerate", "-m", "orders")
    (written,) = (tmp_path / "migrations" / "versions").glob("*_orders.py")
    assert "op.create_table('orders'" in written.read_text()
    assert "fencepost" not in written.read_text()
    alembic(tmp_path, "upgrade", "head")
    assert "No new upgrade operations detected" in alembic(tmp_path, "check")
    alembic(tmp_path, "downgrade", "base")
    assert catalogues.sqlite(tmp_path / "shop.db") == []
