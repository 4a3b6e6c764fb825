package policy

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/policy/lifecycle"
)

// apiCheck finds APIs that the cluster, or the next version of Kubernetes, does not serve.
type apiCheck struct{ engine *Engine }

func (c *apiCheck) scope(s *Subject, o *Object) string {
	version, ok := lifecycle.ParseMinor(s.Cluster.KubeVersion)
	if !ok {
		return ""
	}
	return o.Object.APIVersion() + "\x00" + o.Object.Kind() + "\x00" + version.String()
}

func (c *apiCheck) check(_ context.Context, s *Subject, o *Object) ([]breach, error) {
	l, ok := lifecycle.Of(o.Object.APIVersion(), o.Object.Kind())
	if !ok {
		return nil, nil
	}
	version, _ := lifecycle.ParseMinor(s.Cluster.KubeVersion) // zero if unknown, which is before every removal
	api := o.Object.APIVersion() + " " + o.Object.Kind()
	hint := ""
	if l.Replacement != "" {
		hint = "use " + l.Replacement
	}
	switch {
	case !l.Removed.IsZero() && !version.Before(l.Removed):
		return []breach{{
			rule: RuleAPIRemoved, path: "apiVersion",
			message: fmt.Sprintf("Kubernetes no longer serves %s since %s, and the cluster has %s", api, l.Removed,
				version), hint: hint,
		}}, nil
	case !l.Removed.IsZero() && !version.Next().Before(l.Removed):
		return []breach{{
			rule: RuleAPIDeprecated, path: "apiVersion",
			message: fmt.Sprintf("%s is not served by Kubernetes %s, the next version after the cluster's", api,
				l.Removed), hint: hint,
		}}, nil
	case !l.Deprecated.IsZero() && !version.Next().Before(l.Deprecated):
		return []breach{{
			rule: RuleAPIDeprecated, path: "apiVersion",
			message: fmt.Sprintf("%s is deprecated since Kubernetes %s%s", api, l.Deprecated, until(l.Removed)),
			hint:    hint,
		}}, nil
	}
	return nil, nil
}

func until(removed lifecycle.Minor) string {
	if removed.IsZero() {
		return ""
	}
	return " and removed in " + removed.String()
}
