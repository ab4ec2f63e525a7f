"""Pictures of imported tasks come from the line itself or a file in the same folder, from nowhere
else."""

import json

import pytest

from apps.tasksets.importing import import_file
from apps.tasksets.models import Picture, Task
from apps.tasksets.storing import BadLines, Origin
from tests.tasksets.test_messages import HOW_MANY, data_url, png, shown


def write(folder, *contents):
    lines = [
        {"prompt": [{"role": "user", "content": content}], "answer": {"count": 3}}
        for content in contents
    ]
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def bring(project, path):
    return import_file(path, Origin(project, "seen", "Seen", path.name))


def at(path: str) -> list:
    return [{"type": "image", "path": path}, HOW_MANY]


def test_inline_pictures_and_picture_files_are_stored_as_the_same_picture(project, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "red.png").write_bytes(png())
    bring(
        project,
        write(
            tmp_path,
            [shown(data_url(png())), HOW_MANY],
            at("pictures/red.png"),
            at("./pictures/red.png"),
        ),
    )
    (picture,) = Picture.objects.all()
    assert picture.project == project
    tasks = Task.objects.all()
    assert {task.digest for task in tasks} == {tasks[0].digest} and len(tasks) == 3
    assert tasks[0].prompt[0]["content"][0] == {
        "type": "image",
        "picture": picture.sha256,
        "width": 8,
        "height": 8,
    }
    assert tasks[0].question == "[picture 1]\nHow many?"


@pytest.mark.parametrize(
    "path",
    [
        "../out.png",
        "link.png",
        "/etc/passwd",
        "none.png",
        ".",
        "a\\u0000b",
        "x" * 5000,
        "linked/out.png",
    ],
)
def test_picture_path_outside_the_folder_or_to_nothing_is_refused(project, tmp_path, path):
    (tmp_path / "out.png").write_bytes(png())
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link.png").symlink_to(tmp_path / "out.png")
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(BadLines, match=r"prompt\[0\].content\[0\].path: "):
        bring(project, write(folder, at(path)))
    assert not Picture.objects.exists()


def test_file_that_is_not_an_image_is_reported(project, tmp_path):
    (tmp_path / "a.png").write_text("hello")
    with pytest.raises(BadLines, match=r"content\[0\].path: is not a supported image"):
        bring(project, write(tmp_path, at("a.png")))


def test_picture_in_a_system_message_is_refused(project, tmp_path):
    path = tmp_path / "a.jsonl"
    messages = [
        {"role": "system", "content": [shown(data_url(png()))]},
        {"role": "user", "content": "hello"},
    ]
    path.write_text(json.dumps({"prompt": messages, "answer": 1}))
    with pytest.raises(BadLines, match="only messages of the user can contain images"):
        bring(project, path)


def test_prompt_of_only_one_picture_is_accepted(project, tmp_path):
    bring(project, write(tmp_path, [shown(data_url(png()))]))
    assert Task.objects.get().question == "[picture 1]"
