#!/usr/bin/env bash
# Makes everything in this folder, and book/assets/navigation.svg, from nothing. Run it in the repository's root:
#
#   source .venv/bin/activate && book/data/navigation/make.sh
#
# It may be stopped and started again: finished runs stay as they are, a half-finished one continues. After a change
# of the preset it stops and says so: remove the run folders, and start again.
set -euo pipefail
cd "$(dirname "$0")/../../.."
data=book/data/navigation
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" # part of what makes a run the same to the bit

one_run() { # NAME SEED STEPS [settings ...]; STEPS of adaptation are evaluated
    local name=$1 seed=$2 steps=$3 out=$data/$1
    shift 3
    echo "== $name"
    python -m mamlrl_core train navigation-2d --seed "$seed" --out "$out" "$@"
    python -m mamlrl_core evaluate "$out" --steps "$steps" --seed "$seed"
    rm -f "$out"/events.out.tfevents.* "$out"/.lock
    provenance "$name" "$@"
}

provenance() { # NAME [settings ...]: note how a run was made; the note of an unchanged run stays
    python - "$data" "$@" <<'PY'
import hashlib, json, platform, subprocess, sys
from pathlib import Path
import numpy, torch

data, name, *settings = Path(sys.argv[1]), *sys.argv[2:]
file = data / "provenance.json"
notes = json.loads(file.read_text()) if file.exists() else {}
digest = hashlib.sha256((data / name / "evaluation.json").read_bytes()).hexdigest()
if notes.get(name, {}).get("evaluation_sha256") != digest:
    git = lambda *command: subprocess.run(["git", *command], capture_output=True, text=True, check=True).stdout.strip()
    rows = [json.loads(line) for line in (data / name / "metrics.jsonl").read_text().splitlines()]
    cpus = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")] if Path("/proc/cpuinfo").exists() else [platform.processor()]
    notes[name] = {
        "evaluation_sha256": digest,
        "settings": settings,
        "git_commit": git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "mamlrl_core") else ""),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "threads": torch.get_num_threads(),
        "cpu": f"{len(cpus)} x {cpus[0] if cpus else 'unknown'}",
        "training_seconds": round(sum(row["sample_seconds"] + row["step_seconds"] for row in rows), 1),
    }
    file.write_text(json.dumps(notes, indent=1) + "\n")
PY
}

for seed in 1 2 3; do one_run "maml-$seed" "$seed" 3; done
one_run pretrained-1 1 3 --inner-steps 0
one_run oracle-1 1 0 --inner-steps 0 --observe-task
one_run random-1 1 3 --iterations 0

echo "== The explorer's sweep, and the picture of README and front page"
(cd book && python -m bookkit.navigation)
