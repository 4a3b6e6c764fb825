package bot

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/promote"
)

// logSilent logs the apps of an environment that posted no commit status after their cluster moved, once for each
// state of a cluster.
func (j *job) logSilent(e *promote.Status) {
	key := "silent/" + e.Environment
	before := strings.Split(j.recall(key), "\n")
	var now []string
	for _, s := range e.Decision.Silent {
		line := s.String()
		if now = append(now, line); slices.Contains(before, line) {
			continue
		}
		j.log.Warn("apps posted no commit status since their cluster moved", "environment", e.Environment, "cluster", s.Cluster,
			"apps", s.Apps, "status", s.Status, "since", s.Since, "command", s.Command())
	}
	if text := strings.Join(now, "\n"); !j.seen(key, text) {
		j.remember(key, text)
	}
}
