"""Trinity-RFT's SQL storage, one batch at a time; run by `bench/buffer.py --reference PYTHON`.

PYTHON is that of an environment with Trinity-RFT.

    DATABASE_URL=postgresql://… PYTHON bench/reference_storage.py --prompt 512 --completion 512
    --batch 64

Its SQLWriter and SQLReader are used without the Ray actor in between (which would cost another call
for each batch), in batches, each with its commit; rows are read as Experience. Each line on
standard input is a command, answered by a line of JSON: `open` creates the tables; `write` and
`read` move a batch, answer `wall` and `cpu` (seconds, of this process); `bytes` answers the bytes
on disk for each row.
"""

import argparse
import asyncio
import json
import os
import random
import sys
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
    for name in ("prompt", "completion", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asyncio.run(obey(parser.parse_args()))


async def obey(options: argparse.Namespace) -> None:
    config = StorageConfig(
        name=NAME,
        schema_type="experience",
        storage_type="sql",
        path=driver_address(),
        batch_size=options.batch,
        wrap_in_ray=False,
        max_read_timeout=30,
    )
    rows = experiences(options)
    writer = SQLWriter(config)
    reader = SQLReader(config)
    written = 0
    for command in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        match command.strip():
            case "open":
                await writer.acquire()  # creates the tables
            case "write":
                await writer.write(rows)
                written += len(rows)
            case "read":
                if len(await reader.read()) != options.batch:
                    raise SystemExit("a batch of another size was read")
        times = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        if command.strip() == "bytes":
            times["bytes"] = await size(writer) / written
        print(json.dumps(times), flush=True)


def driver_address() -> str:
    """Return DATABASE_URL in its driver's form: a socket's folder as `host` in the query."""
    url = make_url(os.environ["DATABASE_URL"])
    folder = unquote(url.host or "")
    url = url.set(host=None).update_query_dict({"host": folder}) if folder.startswith("/") else url
    return url.render_as_string(hide_password=False)


def experiences(options: argparse.Namespace) -> list[Experience]:
    """Return one batch, with arrays like those of bench/buffer.py."""
    draw = random.Random(0)
    length = options.prompt + options.completion
    return [
        Experience(
            eid=EID(task=number, run=0, suffix=str(number)),
            prompt_length=options.prompt,
            reward=1.0,
            info={"model_version": 0},
            tokens=torch.tensor(
                [min(151_000, int(draw.paretovariate(0.6))) for _ in range(length)],
                dtype=torch.int32,
            ),
            logprobs=torch.tensor(
                [-draw.expovariate(2) for _ in range(options.completion)], dtype=torch.float32
            ),
            action_mask=torch.ones(options.completion, dtype=torch.bool),
        )
        for number in range(options.batch)
    ]


async def size(writer: SQLWriter) -> float:
    """Return the bytes on disk, with indexes."""
    storage = await writer._get_async_storage()
    async with storage.engine.connect() as connection:
        sizes = f"SELECT pg_total_relation_size('{NAME}') + pg_total_relation_size('{NAME}_blob')"
        return float((await connection.execute(text(sizes))).scalar())


if __name__ == "__main__":
    main()
