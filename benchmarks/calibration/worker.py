"""Run seeds of one target in this process, a line of JSON each: ``python -m benchmarks.calibration.worker TASK``."""

import json
import sys


def main() -> None:
    task = json.loads(sys.argv[1])
    from benchmarks.calibration.runs import record_of
    from benchmarks.calibration.targets import target_of

    known = target_of(task["target"])
    for nth, seed in enumerate(task["seeds"]):
        record = record_of(known, seed, task["options"], with_initial=task["with_initial"])
        print(json.dumps(record | {"is_first": nth == 0}), flush=True)


if __name__ == "__main__":
    main()
