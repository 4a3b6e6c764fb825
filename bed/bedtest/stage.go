package bedtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// workloads are the paths of the kinds that RunWorkloads reports on.
var workloads = []string{"/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets"}

// workload is what RunWorkloads reads of an object.
type workload struct {
	Metadata struct {
		Name, Namespace string
		Generation      int64
	}
	Spec struct {
		Replicas *int64
		Template struct {
			Spec struct{ Containers []struct{ Image string } }
		}
	}
	Status struct{ ObservedGeneration int64 }
}

// RunWorkloads reports the status of workloads as if their controllers and nodes ran them, until the context ends: all
// pods of a Deployment, StatefulSet or DaemonSet are ready, unless an image has the word broken in its name. Those
// never become ready, and a Deployment fails at once, as after its progressDeadlineSeconds. An Ingress gets an address, and a
// PodDisruptionBudget is met.
func (k *Kubernetes) RunWorkloads(ctx context.Context) error {
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		for _, path := range workloads {
			if err := k.report(ctx, path); err != nil && ctx.Err() == nil {
				return err
			}
		}
		for path, status := range others {
			if err := k.complete(ctx, path, status); err != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// report writes the status of the workloads of a kind that have changed.
func (k *Kubernetes) report(ctx context.Context, path string) error {
	data, err := k.Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	var list struct{ Items []workload }
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, w := range list.Items {
		if w.Status.ObservedGeneration == w.Metadata.Generation {
			continue
		}
		at, kind := objectPath(path, w.Metadata.Namespace, w.Metadata.Name)
		if err := k.patchStatus(ctx, at, w.status(kind)); err != nil {
			return err
		}
	}
	return nil
}

// others are the kinds of objects that RunWorkloads gives a status once, and that status.
var others = map[string]map[string]any{
	"/apis/networking.k8s.io/v1/ingresses": {"loadBalancer": map[string]any{"ingress": []map[string]any{{"ip": "192.0.2.1"}}}},
	"/apis/policy/v1/poddisruptionbudgets": {
		"observedGeneration": 1, "expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1,
		"conditions": []map[string]any{{
			"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
			"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
		}},
	},
}

// complete gives the objects of a kind without a status that status.
func (k *Kubernetes) complete(ctx context.Context, path string, status map[string]any) error {
	data, err := k.Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
			Status   struct {
				LoadBalancer       struct{ Ingress []any }
				ObservedGeneration int64
			}
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, i := range list.Items {
		if len(i.Status.LoadBalancer.Ingress) > 0 || i.Status.ObservedGeneration > 0 {
			continue
		}
		at, _ := objectPath(path, i.Metadata.Namespace, i.Metadata.Name)
		if err := k.patchStatus(ctx, at, status); err != nil {
			return err
		}
	}
	return nil
}

// objectPath returns the path of one object, and its resource, such as deployments. list is the path of all objects of
// the resource: /apis/apps/v1/deployments.
func objectPath(list, namespace, name string) (at, resource string) {
	api, resource := path.Split(list)
	return api + path.Join("namespaces", namespace, resource, name), resource
}

// patchStatus sets fields of an object's status, if the object still exists.
func (k *Kubernetes) patchStatus(ctx context.Context, path string, status map[string]any) error {
	_, err := k.send(ctx, http.MethodPatch, path+"/status", "application/merge-patch+json", map[string]any{"status": status})
	if e, ok := errors.AsType[*StatusError](err); ok && e.Code == http.StatusNotFound {
		return nil
	}
	return err
}

func (w *workload) status(kind string) map[string]any {
	pods := int64(1)
	if w.Spec.Replicas != nil {
		pods = *w.Spec.Replicas
	}
	ready, broken := pods, false
	for _, c := range w.Spec.Template.Spec.Containers {
		broken = broken || strings.Contains(c.Image, "broken")
	}
	if broken {
		ready = 0
	}
	if kind == "daemonsets" {
		return map[string]any{
			"observedGeneration": w.Metadata.Generation, "desiredNumberScheduled": pods, "currentNumberScheduled": pods,
			"updatedNumberScheduled": pods, "numberReady": ready, "numberAvailable": ready, "numberMisscheduled": 0,
		}
	}
	out := map[string]any{
		"observedGeneration": w.Metadata.Generation, "replicas": pods, "updatedReplicas": pods,
		"readyReplicas": ready, "availableReplicas": ready,
	}
	if kind == "statefulsets" {
		out["currentReplicas"], out["currentRevision"], out["updateRevision"] = pods, "1", "1"
		return out
	}
	available, progressing, reason := "True", "True", "NewReplicaSetAvailable"
	if broken {
		available, progressing, reason = "False", "False", "ProgressDeadlineExceeded"
	}
	out["conditions"] = []map[string]any{
		{"type": "Available", "status": available, "reason": "Pods"},
		{"type": "Progressing", "status": progressing, "reason": reason},
	}
	return out
}
