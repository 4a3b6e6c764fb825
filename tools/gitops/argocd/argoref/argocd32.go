//go:build argocd32

package argoref

import (
	"context"

	"github.com/argoproj/argo-cd/v3/applicationset/generators"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Version of Argo CD that this package calls, and the major version of the Helm that it ships.
const (
	Version = "3.2.12"
	Helm    = 3
)

func newGenerators(ctx context.Context, c client.Client, k kubernetes.Interface,
	r repo,
) map[string]generators.Generator {
	return generators.GetGenerators(ctx, c, k, namespace, r, nil, generators.SCMConfig{})
}

// GetFiles implements services.Repos.
func (r repo) GetFiles(ctx context.Context, url, revision, _, pattern string, _, _ bool) (map[string][]byte, error) {
	return r.files(ctx, url, revision, pattern)
}

// GetDirectories implements services.Repos.
func (r repo) GetDirectories(_ context.Context, url, revision, _ string, _, _ bool) ([]string, error) {
	return r.directories(url, revision)
}
