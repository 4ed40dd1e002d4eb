#!/usr/bin/env bash
# Makes everything in this folder, and book/assets/navigation.svg, from nothing. Run it in the repository's root:
#
#   source .venv/bin/activate && book/data/navigation/make.sh
#
# It may be stopped and started again: finished runs stay as they are, a half-finished one continues. After a change
# of the preset it stops and says so: remove the run folders, and start again.
source "$(dirname "$0")/../one_run.sh"

for seed in 1 2 3; do one_run navigation-2d navigation "maml-$seed" "$seed" 3; done
one_run navigation-2d navigation pretrained-1 1 3 --inner-steps 0
one_run navigation-2d navigation oracle-1 1 0 --inner-steps 0 --observe-task
one_run navigation-2d navigation random-1 1 3 --iterations 0

echo "== The explorer's sweep, and the picture of README and front page"
(cd book && python -m bookkit.navigation)
