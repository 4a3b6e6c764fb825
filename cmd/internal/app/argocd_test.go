package app_test

import (
	"context"
	"testing"

	"github.com/sluice-gitops/sluice/bed/bedtest"
)

// startArgoCD starts an API server with Argo CD.
func (s *story) startArgoCD(name string) *syncedCluster {
	s.t.Helper()
	return s.startCluster(name, func(ctx context.Context, k *bedtest.Kubernetes, dir string) (syncer, error) {
		if err := k.AddArgoCD(ctx); err != nil {
			return nil, err
		}
		return k.StartArgoCD(ctx, dir)
	})
}

// adoptArgoCD does what docs/argocd.md says for the cluster.
func (c *syncedCluster) adoptArgoCD(token string) {
	c.s.t.Helper()
	c.do("", "-n", "argocd", "patch", "secret", "argocd-notifications-secret", "--type", "merge", "-p",
		`{"stringData": {"sluice-token": "`+token+`"}}`)
	c.do(c.bootstrap("argocd"), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
	c.do(c.bootstrap("argocd", "--part", "notifications"), "-n", "argocd", "patch", "configmap", "argocd-notifications-cm",
		"--type", "merge", "--patch-file", "/dev/stdin")
}

// Argo CD applies the branches of two clusters to their API servers, as Flux does in TestFluxAppliesWaves.
func TestArgoCDAppliesWaves(t *testing.T) {
	needs(t, []string{"argocd"}, func(t *testing.T, s *story) {
		t.Helper()
		s.waves("argocd", func(name, token string) *syncedCluster {
			c := s.startArgoCD(name)
			c.adoptArgoCD(token)
			return c
		})
	})
}
