package handover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// written returns a cluster's tree with some files.
func written(t *testing.T, store *gitstore.Store, apps map[string]map[string]string) gitstore.Hash {
	t.Helper()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	var folders []gitstore.Entry
	for app, files := range apps {
		var entries []gitstore.Entry
		for name, text := range files {
			blob, err := w.Blob([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob})
		}
		tree, err := w.Tree(entries)
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, gitstore.Entry{Name: app, Mode: gitstore.ModeTree, Hash: tree})
	}
	tree, err := w.Tree(folders)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestRead(t *testing.T) {
	t.Parallel()
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: hydratetest.New(t).Dir})
	if err != nil {
		t.Fatal(err)
	}
	object := func(kind, name, rest string) string {
		return fmt.Sprintf("apiVersion: x/v1\nkind: %s\nmetadata: {name: %s, namespace: shop}\n%s", kind, name, rest)
	}
	tree := written(t, store, map[string]map[string]string{
		"web": {
			"deployment-web.yaml": object("Deployment", "web", `spec:
  template:
    spec:
      imagePullSecrets: [{name: pull}]
      initContainers: [{name: i, image: init:1, envFrom: [{secretRef: {name: maybe, optional: true}}]}]
      containers: [{name: c, image: web:2, env: [{name: A, valueFrom: {secretKeyRef: {name: here, key: a}}}, {name: B, valueFrom: {secretKeyRef: {name: sealed, key: a}}}]}]
      volumes:
        - {name: v, secret: {secretName: volume, optional: true}}
        - {name: p, projected: {sources: [{secret: {name: projected}}]}}
`),
			"secret-here.yaml":   object("Secret", "here", "data: {a: eA==}\n"),
			"sealed.yaml":        object("SealedSecret", "sealed", "spec: {}\n"),
			"configmap-c.yaml":   object("ConfigMap", "c", "data: {image: nope, secretName: nope}\n"),
			"ingress-web.yaml":   object("Ingress", "web", "spec: {tls: [{secretName: made}, {secretName: tls}]}\n"),
			"certificate-m.yaml": object("Certificate", "m", "spec: {secretName: made, issuerRef: {name: i}}\n"),
		},
		"job": {"cronjob-j.yaml": object("CronJob", "j", "spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: job:1, envFrom: [{secretRef: {name: maybe}}]}]}}}}}\n")},
	})
	got, err := Read(t.Context(), store, Request{
		Tree: tree, Cluster: "c", Commit: func(app string) string { return "commit of " + app }, Fleet: func(string) *fleet.Fleet { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, a := range got.Apps {
		fmt.Fprintf(&text, "%s %s %d %v\n", a.Name, a.Commit, a.Objects, a.Images)
	}
	for _, s := range got.Secrets {
		fmt.Fprintf(&text, "%s/%s %t %v\n", s.Namespace, s.Name, s.Optional, s.UsedBy)
	}
	fmt.Fprintln(&text, got.Images)
	const want = `job commit of job 1 [job:1]
web commit of web 6 [init:1 web:2]
shop/maybe false [job web]
shop/projected false [web]
shop/pull false [web]
shop/tls false [web]
shop/volume true [web]
[init:1 job:1 web:2]
`
	if text.String() != want {
		t.Errorf("the contents are\n%s\nwant\n%s", &text, want)
	}
	bad := written(t, store, map[string]map[string]string{"web": {"x.yaml": "a: [\n"}})
	if _, err := Read(t.Context(), store, Request{Tree: bad, Commit: func(string) string { return "" }, Fleet: func(string) *fleet.Fleet { return nil }}); err == nil || !strings.Contains(err.Error(), "web/x.yaml") {
		t.Errorf("a file that is no object: %v", err)
	}
}
