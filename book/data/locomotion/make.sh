#!/usr/bin/env bash
# Makes the runs in the folders half-cheetah-* and ant-* beside this one, from nothing: a day's work for two cores.
# Run it in the repository's root:
#
#   source .venv/bin/activate && book/data/locomotion/make.sh
#
# It may be stopped and started again: finished runs stay as they are, a half-finished one continues.
source "$(dirname "$0")/../one_run.sh"
