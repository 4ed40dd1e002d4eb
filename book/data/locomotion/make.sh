#!/usr/bin/env bash
# Makes the stored runs in the folders half-cheetah-* and ant-* beside this one, from nothing: some two hours on two
# cores. Run it in the repository's root:
#
#   source .venv/bin/activate && book/data/locomotion/make.sh
#
# It may be stopped and started again: finished runs stay as they are, a half-finished one continues.
source "$(dirname "$0")/../one_run.sh"

cheetah_runs() { one_run half-cheetah-direction half-cheetah-direction "$@"; }

for seed in 1 2 3; do cheetah_runs "maml-$seed" "$seed" 3; done
cheetah_runs random-1 1 3 --iterations 0
one_run half-cheetah-velocity half-cheetah-velocity maml-1 1 3 --num-tasks 20
one_run ant-direction ant-direction maml-1 1 3 --iterations 72
