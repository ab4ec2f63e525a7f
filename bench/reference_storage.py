"""What Trinity-RFT's own SQL storage costs: run by `bench/buffer.py --reference PYTHON`, in an environment that has it.

    DATABASE_URL=postgresql://… PYTHON bench/reference_storage.py --experiences 5000 --prompt 512 --completion 512 --batch 64

Its SQLWriter and SQLReader without the Ray actor between (which would cost a call more for each batch), in batches, each with its
commit; what is read comes as Experience. The last line is JSON: `write_per_s`, `read_per_s`, `bytes_each`.
"""

import argparse
import asyncio
import json
import os
import random
import time
from urllib.parse import unquote

import torch
from sqlalchemy import make_url, text
from trinity.buffer.reader.sql_reader import SQLReader
from trinity.buffer.writer.sql_writer import SQLWriter
from trinity.common.config import StorageConfig
from trinity.common.experience import EID, Experience

NAME = "reference"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("experiences", "prompt", "completion", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    print(json.dumps(asyncio.run(measured(parser.parse_args()))))


async def measured(asked: argparse.Namespace) -> dict[str, float]:
    config = StorageConfig(
        name=NAME, schema_type="experience", storage_type="sql", path=address(), batch_size=asked.batch, wrap_in_ray=False,
        max_read_timeout=30,
    )  # fmt: skip
    rows, batches = experiences(asked), asked.experiences // asked.batch
    writer, reader = SQLWriter(config), SQLReader(config)
    await writer.acquire()  # makes the tables
    began = time.perf_counter()
    for _ in range(batches):
        await writer.write(rows)
    written = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(batches):
        if len(await reader.read()) != asked.batch:
            raise SystemExit("a batch of another size was read")
    read = time.perf_counter() - began
    count = batches * asked.batch
    return {"write_per_s": count / written, "read_per_s": count / read, "bytes_each": await size(writer) / count}


def address() -> str:
    """DATABASE_URL; a socket's folder as its driver takes it, by `host` behind the question mark."""
    url = make_url(os.environ["DATABASE_URL"])
    folder = unquote(url.host or "")
    url = url.set(host=None).update_query_dict({"host": folder}) if folder.startswith("/") else url
    return url.render_as_string(hide_password=False)


def experiences(asked: argparse.Namespace) -> list[Experience]:
    """One batch, with arrays as those of bench/buffer.py."""
    draw = random.Random(0)
    length = asked.prompt + asked.completion
    return [
        Experience(
            eid=EID(task=number, run=0, suffix=str(number)), prompt_length=asked.prompt, reward=1.0, info={"model_version": 0},
            tokens=torch.tensor([min(151_000, int(draw.paretovariate(0.6))) for _ in range(length)], dtype=torch.int32),
            logprobs=torch.tensor([-draw.expovariate(2) for _ in range(asked.completion)], dtype=torch.float32),
            action_mask=torch.ones(asked.completion, dtype=torch.bool),
        )
        for number in range(asked.batch)
    ]  # fmt: skip


async def size(writer: SQLWriter) -> float:
    """Bytes on disk, with indexes."""
    storage = await writer._get_async_storage()
    async with storage.engine.connect() as connection:
        sizes = f"SELECT pg_total_relation_size('{NAME}') + pg_total_relation_size('{NAME}_blob')"
        return float((await connection.execute(text(sizes))).scalar())


if __name__ == "__main__":
    main()
