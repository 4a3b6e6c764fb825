package promote

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// noReason is the value of a trailer that must be there although nobody gave a reason.
const noReason = "yes"

// trailers of a commit on an environment branch. record is the version of the environment's record; 0 names none.
func trailers(e fleet.Environment, a rollout.Action, record int) []gitstore.Trailer {
	list := []gitstore.Trailer{
		{Key: branch.TrailerSource, Value: a.Source.Commit},
		{Key: branch.TrailerEnvironment, Value: e.Name},
	}
	add := func(key, value string) {
		if value != "" {
			list = append(list, gitstore.Trailer{Key: key, Value: value})
		}
	}
	if a.Kind != rollout.DoRollback && !a.Renders {
		add(branch.TrailerFrom, strings.Join(e.After, ", "))
	}
	for _, who := range a.ApprovedBy {
		add(branch.TrailerApproved, who)
	}
	add(branch.TrailerBy, a.By)
	add(branch.TrailerApps, strings.Join(a.Apps, ", "))
	add(branch.TrailerWorkspaces, strings.Join(a.Workspaces, ", "))
	add(branch.TrailerLeftOut, strings.Join(a.Without, ", "))
	if a.Overtakes {
		add(branch.TrailerNow, cmp.Or(a.Reason, noReason))
	}
	if a.Renders {
		add(branch.TrailerRenderedAgain, cmp.Or(a.Reason, noReason))
	} else if a.Kind == rollout.MoveEnvironment && !a.Overtakes {
		add(branch.TrailerReason, a.Reason)
	}
	if a.Continues != "" { // it is part of a rollout, which moves in waves
		add(branch.TrailerTakenBack, a.Reason)
		add(branch.TrailerWave, a.Wave)
	} else if a.Kind == rollout.DoRollback {
		add(branch.TrailerRollback, cmp.Or(a.Reason, noReason))
		add(branch.TrailerClusters, strings.Join(a.Clusters, ", "))
		add(branch.TrailerWave, a.Wave)
	}
	if record > 0 {
		add(branch.TrailerRecord, strconv.Itoa(record))
	}
	return list
}

// clusterTrailers name the commits that a cluster's tree was rendered from, and why its branch moves.
func clusterTrailers(e fleet.Environment, a rollout.Action, record int, cluster string,
	runs rollout.ClusterSource,
) []gitstore.Trailer {
	a.Source, a.Overtakes, a.ApprovedBy, a.Apps, a.Workspaces, a.Clusters = rollout.Source{Commit: runs.Commit},
		a.Overtakes && a.Reason != "", nil, nil, nil, nil
	list := append(trailers(e, a, record), gitstore.Trailer{Key: branch.TrailerCluster, Value: cluster})
	if a.Wave != "" && a.Kind != rollout.DoRollback {
		list = append(list, gitstore.Trailer{Key: branch.TrailerWave, Value: a.Wave})
	}
	for _, app := range slices.Sorted(maps.Keys(runs.Apps)) {
		if c := runs.Apps[app]; c != runs.Commit {
			list = append(list, gitstore.Trailer{Key: branch.TrailerAppSource, Value: app + " " + c})
		}
	}
	return list
}
