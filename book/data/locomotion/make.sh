#!/usr/bin/env bash
# Makes the stored runs in the folders half-cheetah-* and ant-* beside this one, from nothing: some four hours on two
# cores. Run it in the repository's root:
#
#   source .venv/bin/activate && book/data/locomotion/make.sh
#
# It may be stopped and started again: finished runs stay as they are, a half-finished one continues.
source "$(dirname "$0")/../one_run.sh"

trained_beside() { # FAMILY [settings ...]: what MAML's policy is compared with, one seed each
    local family=$1
    shift
    one_run "$family" "$family" oracle-1 1 0 --inner-steps 0 --observe-task "$@"
    one_run "$family" "$family" pretrained-1 1 3 --inner-steps 0 "$@"
}

for seed in 1 2 3; do one_run half-cheetah-direction half-cheetah-direction "maml-$seed" "$seed" 3; done
one_run half-cheetah-direction half-cheetah-direction random-1 1 3 --iterations 0
trained_beside half-cheetah-direction --num-tasks 20

one_run half-cheetah-velocity half-cheetah-velocity maml-1 1 3 --num-tasks 20 --iterations 300
one_run half-cheetah-velocity half-cheetah-velocity random-1 1 3 --num-tasks 20 --iterations 0
trained_beside half-cheetah-velocity --num-tasks 20

one_run ant-direction ant-direction maml-1 1 3 --iterations 72
one_run ant-direction ant-direction random-1 1 3 --iterations 0
trained_beside ant-direction --iterations 40

one_run ant-velocity ant-velocity maml-1 1 3 --iterations 60
one_run ant-velocity ant-velocity random-1 1 3 --iterations 0
trained_beside ant-velocity --iterations 40

for cheetah in half-cheetah-direction half-cheetah-velocity; do
    (cd book && python -m bookkit.comparison "$cheetah")
done
