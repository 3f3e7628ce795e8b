"""`attnviz atlas`: an atlas from the shell."""

import pandas as pd
import pytest

from attnviz import cli
from attnviz.atlas import tables


def test_an_atlas_is_built_and_says_what_was_left_out(tmp_path, capsys):
    """Begun again it has nothing to do, and the options that decide what is in it must be the same."""
    (tmp_path / "texts.jsonl").write_text('"the cat sat"\n\n{\n"a dog sleeps"\n')
    command = ["atlas", "build", "constructed", str(tmp_path / "texts.jsonl"), "-o", str(tmp_path / "atlas")]

    assert [cli.main(command), cli.main(command)] == [0, 0]
    out, err = capsys.readouterr()
    assert out.splitlines()[0].endswith("atlas. Left out: 1 empty line, 1 with problems.")
    assert out.startswith("2 texts, 6 tokens, in ")
    assert "4 of 4 texts are done already." in err
    assert "texts.jsonl, line 3: This line is not valid JSON." in err
    assert len(pd.read_parquet(tmp_path / "atlas" / "heads.parquet")) == 8
    assert cli.main([*command, "--keep", "3"]) == 2
    assert "its option keep is 10, not 3. Give another folder." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["atlas"], "The following arguments are required: ACTION."),
        (["atlas", "build", "constructed", "nowhere.txt", "-o", "a"], "There is no file or folder 'nowhere.txt'"),
        (["atlas", "build", "constructed", "x.txt", "-o", "a", "--keep", "-1"], "'-1' is not a whole number"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, says, tmp_path, monkeypatch, capsys):
    """And the exit status is 2."""
    monkeypatch.chdir(tmp_path)

    assert cli.main(arguments) == 2
    assert says in capsys.readouterr().err


def test_a_full_disk_is_said_and_what_is_done_stays(tmp_path, monkeypatch, capsys):
    """As pyarrow says it; the same command then goes on."""
    (tmp_path / "texts.txt").write_text("a b a\n" * 3)
    command = ["atlas", "build", "constructed", str(tmp_path / "texts.txt"), "-o", str(tmp_path / "atlas")]
    command += ["--shard", "1", "--workers", "0"]
    write = tables.write

    written = []

    def full(found, folder):
        written.append(folder)
        if len(written) == 3:
            raise OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device")
        write(found, folder)

    monkeypatch.setattr(tables, "write", full)
    assert cli.main(command) == 2
    said = "cannot be written: [errno 28] No space left on device. Finished shards are kept: run the same"
    assert said in capsys.readouterr().err
    monkeypatch.setattr(tables, "write", write)
    assert cli.main(command) == 0
    assert "2 of 3 texts are done already." in capsys.readouterr().err
