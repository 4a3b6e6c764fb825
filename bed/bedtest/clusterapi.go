package bedtest

import (
	"context"
	"path/filepath"
)

// AddClusterAPIKinds makes the kinds of Cluster API's core known to an API server. None of its controllers runs.
func (k *Kubernetes) AddClusterAPIKinds(ctx context.Context) error {
	folder, err := part("cluster-api")
	if err != nil {
		return err
	}
	if _, err := k.Kubectl(ctx, "", "apply", "--server-side", "-f", filepath.Join(folder, "crds")); err != nil {
		return err
	}
	return k.established(ctx)
}
