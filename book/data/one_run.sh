# To be sourced: how a run that chapters show is made, measured, and noted down.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" # part of what makes a run the same to the bit

one_run() { # PRESET FOLDER NAME SEED STEPS [settings ...]; STEPS of adaptation are evaluated
    local preset=$1 out=book/data/$2/$3 seed=$4 steps=$5
    shift 5
    echo "== $out"
    python -m mamlrl_core train "$preset" --seed "$seed" --out "$out" "$@"
    python -m mamlrl_core evaluate "$out" --steps "$steps" --seed "$seed"
    rm -f "$out"/events.out.tfevents.* "$out"/.lock
    (cd book && python -m bookkit.provenance "../$out")
}
