#!/usr/bin/env bash
# Hydrates the fleet of testdata/fleet into a bare repository in a temporary folder, changes one value, hydrates again,
# promotes a change to prod in two waves, rolls it back, and shows what a person wants to see. Writes pages of the fleet to SITE.
set -euo pipefail
fleet=$(cd "$(dirname "$0")/fleet" && pwd)
sluice=${SLUICE:-sluice}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com

bold=; dim=; plain=
if [ -t 1 ]; then bold=$'\e[1m'; dim=$'\e[2m'; plain=$'\e[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
run() { # shows a command and runs it
  printf '%s$' "$dim"
  for word in "$@"; do case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
  printf '%s\n' "$plain"
  "$@"
}
sluice() { "$sluice" "$@"; }

git init -q --bare -b main "$work/fleet.git"
git clone -q "$work/fleet.git" "$work/fleet" 2>/dev/null
cd "$work/fleet"
git checkout -q -b main 2>/dev/null || true
cp -r "$fleet/." .
git add -A && git commit -qm "Open the harbour" && git push -q origin main

say "A fleet: 7 clusters in 3 environments, 4 apps in layers"
run sluice validate
run sluice where --cluster prod-eu-1

say "dev follows the trunk: rendered and pushed"
run sluice hydrate --push

say "staging and prod get their first state by a promotion, through the gates that apply to an empty environment"
run sluice promote staging
run sluice promote prod

say "The branches of the bare repository: one for each environment and cluster"
run git -C "$work/fleet.git" for-each-ref --format='%(objectname:short) %(refname:short)' refs/heads
say "What the cluster prod-eu-1 syncs"
run git -C "$work/fleet.git" ls-tree -r --name-only cluster/prod-eu-1

say "One value changes, for one region"
sed -i.bak 's/currency: USD/currency: CAD/' apps/shop/layers/region/us-east-1/values.yaml && rm -f apps/shop/layers/region/us-east-1/values.yaml.bak
git commit -qam "Sell in Canadian dollars in us-east-1" && git push -q origin main
run git diff -U0 HEAD~1 HEAD -- apps
run sluice affected HEAD~1..HEAD
run sluice explain --app shop --cluster prod-us-1 --value config.currency

say "What a reviewer sees before the merge: changed objects, not changed values"
export SLUICE_OFFLINE=1
run sluice diff HEAD~1..HEAD

say "Sluice renders only what the change reaches and moves only its branches"
run sluice hydrate --push
run sluice promote staging --now --reason "a demonstration"
run sluice promote prod

say "The same change on the cluster's branch"
run git -C "$work/fleet.git" show --stat --patch --format='%h %an: %s%n%n%b' cluster/prod-us-1 --

say "A change for all environments: dev gets it at once, staging after dev, prod when somebody asks for it"
sed -i.bak 's/mind the gap/mind the step/' apps/shop/layers/global/values.yaml && rm -f apps/shop/layers/global/values.yaml.bak
git commit -qam "Greet otherwise" && git push -q origin main
sluice hydrate --push --quiet >/dev/null
run sluice status
say "staging waits until dev has run it for 30 minutes; --now with a reason skips that wait and is recorded"
run sluice promote staging --now --reason "a demonstration"
say "prod takes two waves: the environment branch and the canary first, then the rest"
run sluice promote prod
run sluice history prod

say "Roll back: prod returns to its previous state at once, and the bad commit is held back"
run sluice rollback prod --reason "the greeting confuses people" --by on-call
run sluice status prod

say "Verify: the branches are what their commits render to"
run sluice verify --from-remote

say "Which clusters differ from their siblings, and why"
run sluice conform

say "Pages of the fleet"
site=${SITE:-$(mktemp -d)}
run sluice site --out "$site"
