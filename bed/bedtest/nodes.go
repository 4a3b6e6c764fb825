package bedtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Nodes are the controllers and the scheduler of Kubernetes, with nodes that kwok (https://kwok.sigs.k8s.io) simulates.
type Nodes struct{ parts []*process }

// Close stops them.
func (n *Nodes) Close() {
	for _, p := range slices.Backward(n.parts) {
		p.Close()
	}
}

// broken matches pods with an image whose name has the word broken.
const broken = `.spec.containers.[] | select( .image | contains("broken") ) | .image`

// stages are those of kwok's that the bed does not take as they are: pods with a broken image do not get it, and an
// Ingress gets an address, which a load balancer gives elsewhere.
const stages = `
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-image-broken}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.containerStatuses', operator: DoesNotExist}
    - {key: '.spec.nodeName', operator: Exists}
    - {key: '` + broken + `', operator: Exists}
  next:
    statusTemplate: |
      phase: Pending
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: ""
        ready: false
        restartCount: 0
        state: {waiting: {reason: ImagePullBackOff, message: the image is broken}}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ingress-address}
spec:
  resourceRef: {apiGroup: networking.k8s.io/v1, kind: Ingress}
  selector:
    matchExpressions:
    - {key: '.status.loadBalancer.ingress.[].ip', operator: DoesNotExist}
  next:
    statusTemplate: |
      loadBalancer: {ingress: [{ip: 192.0.2.1}]}
`

// impatient makes a Deployment fail after seconds if its pods do not start; the default is ten minutes.
const impatient = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: impatient}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{progressDeadlineSeconds: 5}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: impatient}
spec: {policyName: impatient}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/os: linux, kubernetes.io/arch: amd64}}
spec: {}
status:
  allocatable: {cpu: "1000", memory: 1000Gi, pods: "1000"}
  capacity: {cpu: "1000", memory: 1000Gi, pods: "1000"}
`

// RunNodes starts the controllers, the scheduler and one simulated node, whose pods become ready at once. Pods with an image
// that has the word broken in its name never become ready; their Deployment fails after five seconds. Logs go to the folder.
func (k *Kubernetes) RunNodes(ctx context.Context, dir string) (_ *Nodes, err error) {
	kwok, err := part("kwok")
	if err != nil {
		return nil, err
	}
	if _, err := k.Kubectl(ctx, impatient, "create", "-f", "-"); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "kwok.yaml")
	if err := writeStages(filepath.Join(kwok, "stages"), config); err != nil {
		return nil, err
	}
	kubeconfig := "--kubeconfig=" + filepath.Join(k.Dir, "kubeconfig")
	n := &Nodes{}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	for _, one := range []struct {
		name, program string
		arguments     []string
	}{
		{"controller-manager", k.bin, []string{
			"controller-manager", kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--service-account-private-key-file=" + filepath.Join(k.Dir, "sa.pem"), "--concurrent-deployment-syncs=2",
		}},
		{"scheduler", k.bin, []string{"scheduler", kubeconfig, "--leader-elect=false", "--secure-port=0"}},
		{"kwok", filepath.Join(kwok, "kwok"), []string{kubeconfig, "--config=" + config, "--manage-all-nodes=true", "--node-lease-duration-seconds=40"}},
	} {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), one.program, one.arguments...) //nolint:gosec // built by make bed
		p, err := start(one.name, dir, cmd)
		if err != nil {
			return nil, err
		}
		n.parts = append(n.parts, p)
	}
	last := n.parts[len(n.parts)-1]
	return n, last.ready(ctx, func() error {
		for _, p := range n.parts {
			select {
			case <-p.done:
				return fmt.Errorf("%s ended: %w\n%s", p.name, p.err, p.end())
			default:
			}
		}
		data, err := k.Do(ctx, http.MethodGet, "/api/v1/nodes/node-1", nil)
		if err == nil && !bytes.Contains(data, []byte(`"reason":"KubeletReady"`)) {
			err = errors.New("the node is not ready")
		}
		return err
	})
}

// writeStages writes the stages of kwok's module, and the bed's, into one file.
func writeStages(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // of the bed
		if err != nil {
			return fmt.Errorf("stages of kwok: %w", err)
		}
		if filepath.Base(file) == "pod-ready.yaml" {
			const selectors = "    matchExpressions:\n"
			if !bytes.Contains(data, []byte(selectors)) {
				return fmt.Errorf("%s has no selectors", file)
			}
			data = bytes.Replace(data, []byte(selectors), []byte(selectors+
				"    - {key: '"+broken+"', operator: DoesNotExist}\n"), 1)
		}
		all.WriteString("---\n")
		all.Write(data)
	}
	all.WriteString(stages)
	return os.WriteFile(to, all.Bytes(), 0o600)
}
