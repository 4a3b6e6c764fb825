//go:build !argocd32

package argoref

import (
	"context"

	"github.com/argoproj/argo-cd/v3/applicationset/generators"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Version of Argo CD that this package calls, and the major version of the Helm that it ships.
const (
	Version = "3.5.7"
	Helm    = 4
)

// newGenerators has no informer of clusters: only the generator that asks a server reads it, and local refuses that one.
func newGenerators(ctx context.Context, c client.Client, k kubernetes.Interface,
	r repo,
) map[string]generators.Generator {
	return generators.GetGenerators(ctx, c, k, namespace, r, nil, generators.SCMConfig{}, nil)
}

// GetFiles implements services.Repos.
func (r repo) GetFiles(ctx context.Context, url, revision, _, pattern string, _ bool, _ *v1alpha1.SourceIntegrity,
) (map[string][]byte, error) {
	return r.files(ctx, url, revision, pattern)
}

// GetDirectories implements services.Repos.
func (r repo) GetDirectories(_ context.Context, url, revision, _ string, _ bool, _ *v1alpha1.SourceIntegrity,
) ([]string, error) {
	return r.directories(url, revision)
}
