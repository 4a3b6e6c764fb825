package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	helmengine "helm.sh/helm/v3/pkg/engine"

	"github.com/sluice-gitops/sluice/renderer"
)

// engine measures rendering alone, in processor time, which is comparable on a busy machine. It compares Sluice's
// engine in this process with a floor, with Helm's engine, and with one helm process per target.
func (b *bench) engine(corpus string) error {
	const targets = 400
	fmt.Printf("\n== rendering alone, processor time for each target\n")
	const workers = 400 // the setting of worker processes, in which Sluice renders
	defer debug.SetGCPercent(debug.SetGCPercent(workers))
	if err := b.plainChart(targets); err != nil {
		return err
	}
	if err := b.largeCharts(corpus, 200); err != nil {
		return err
	}
	return b.overlays(200)
}

// cost runs work once for each of n targets and returns the processor time per target. The first eighth of the
// targets fills caches and counts too.
func cost(n int, work func(i int) error) (time.Duration, error) {
	before, err := processorTime()
	if err != nil {
		return 0, err
	}
	for i := range n {
		if err := work(i); err != nil {
			return 0, err
		}
	}
	after, err := processorTime()
	return (after - before) / time.Duration(n), err
}

func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// least returns the smallest of several costs, because noise only adds.
func least(rounds int, measure func() (time.Duration, error)) (time.Duration, error) {
	var out time.Duration
	for i := range rounds {
		d, err := measure()
		if err != nil {
			return 0, err
		}
		if i == 0 || d < out {
			out = d
		}
	}
	return out, nil
}

func engineRow(what string, d time.Duration, more string) {
	fmt.Printf("%-52s %9.0f µs   %s\n", what, float64(d.Nanoseconds())/1e3, more)
}

func values(i int) map[string]any {
	return map[string]any{
		"replicas": 2, "image": map[string]any{"repository": "registry.example.com/app", "tag": "1.0"},
		"own": fmt.Sprintf("c-%04d", i), "host": "app.example.com",
		"level": "info", "port": 8080, "cpu": "100m", "memory": "128Mi", "flag": "on",
		"global": map[string]any{"region": fmt.Sprintf("r%d", i%5)},
	}
}

// plainChart measures the chart of the generated fleets, with one different value per target.
func (b *bench) plainChart(targets int) error {
	const name = "app-00"
	var buffered []*loader.BufferedFile
	content := renderer.Content{Name: name, Digest: name}
	for file, text := range chart(name) {
		buffered = append(buffered, &loader.BufferedFile{Name: file, Data: []byte(text)})
		content.Files = append(content.Files, renderer.File{Path: file, Data: []byte(text)})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		return err
	}
	floor, err := floorOf(c, targets)
	if err != nil {
		return err
	}
	engineRow("floor: values merged, parsed templates run", floor, "")
	helm, err := least(3, func() (time.Duration, error) {
		return cost(targets, func(i int) error {
			top, err := topValues(c, values(i))
			if err != nil {
				return err
			}
			_, err = helmengine.Render(c, top)
			return err
		})
	})
	if err != nil {
		return err
	}
	engineRow("Helm's engine, which parses each time", helm, "")
	sluice, err := least(3, func() (time.Duration, error) {
		return b.sluiceCost(targets, func(i int) (*renderer.Bundle, error) { return helmBundle(content, values(i)) })
	})
	if err != nil {
		return err
	}
	engineRow("Sluice: the same, decoded and canonical", sluice,
		fmt.Sprintf("%.2f × the floor (to reach: 1.5)", ratio(sluice, floor)))
	return nil
}

func topValues(c *helmchart.Chart, v map[string]any) (chartutil.Values, error) {
	return chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "app", Namespace: "app"},
		chartutil.DefaultCapabilities)
}

// floorOf executes templates that are parsed once, with the functions that the chart uses.
func floorOf(c *helmchart.Chart, targets int) (time.Duration, error) {
	set := template.New("floor").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	set.Funcs(template.FuncMap{"include": func(name string, data any) (string, error) {
		var out strings.Builder
		err := set.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}})
	for _, f := range c.Templates {
		if _, err := set.New(f.Name).Parse(string(f.Data)); err != nil {
			return 0, err
		}
	}
	return least(3, func() (time.Duration, error) {
		return cost(targets, func(i int) error {
			top, err := topValues(c, values(i))
			if err != nil {
				return err
			}
			top["Chart"] = c.Metadata
			for _, f := range c.Templates {
				var out strings.Builder
				if err := set.ExecuteTemplate(&out, f.Name, top); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// sluiceCost renders a bundle for each target with a new engine.
func (b *bench) sluiceCost(targets int, bundle func(i int) (*renderer.Bundle, error)) (time.Duration, error) {
	engine := renderer.NewEngine(renderer.DefaultLimits())
	return cost(targets, func(i int) error {
		next, err := bundle(i)
		if err != nil {
			return err
		}
		_, err = engine.Render(b.ctx, next)
		return err
	})
}

func helmBundle(content renderer.Content, v map[string]any) (*renderer.Bundle, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	source := &renderer.HelmSource{Release: "app", Chart: content, Values: encoded, IncludeCRDs: true}
	return &renderer.Bundle{Namespace: "app", KubeVersion: "1.33.2", Sources: []renderer.Source{{Helm: source}}}, nil
}

// largeCharts compares real charts with large CustomResourceDefinitions with `helm template`.
func (b *bench) largeCharts(corpus string, targets int) error {
	// besides the name of all objects, a value that few templates read
	for name, value := range map[string]func(i int) map[string]any{
		"argo-cd": func(i int) map[string]any {
			return map[string]any{"global": map[string]any{"domain": fmt.Sprintf("c-%04d.example.com", i)}}
		},
		"cert-manager": func(i int) map[string]any { return map[string]any{"replicaCount": i%50 + 1} },
		"prometheus": func(i int) map[string]any {
			return map[string]any{"server": map[string]any{"retention": fmt.Sprintf("%dd", i+1)}}
		},
		"traefik": func(i int) map[string]any {
			return map[string]any{"deployment": map[string]any{"replicas": i%50 +
				1}}
		},
	} {
		files, err := filepath.Glob(filepath.Join(corpus, "charts", name+"-[0-9v]*.tgz"))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			fmt.Printf("%-44s left out: no chart in %s\n", name, corpus)
			continue
		}
		archive, err := os.ReadFile(files[0])
		if err != nil {
			return err
		}
		rival, err := b.processCost(5, func(i int) (string, []string) {
			return b.helm, []string{"template", "app", files[0], "--namespace", "app", "--kube-version", "1.33.2",
				"--include-crds", "--set", fmt.Sprintf("fullnameOverride=c-%04d", i)}
		})
		if err != nil {
			return err
		}
		content := renderer.Content{Name: name, Digest: name, Archive: archive}
		sluice, err := b.sluiceCost(targets, func(i int) (*renderer.Bundle, error) {
			return helmBundle(content, map[string]any{"fullnameOverride": fmt.Sprintf("c-%04d", i)})
		})
		if err != nil {
			return err
		}
		one, err := b.sluiceCost(targets, func(i int) (*renderer.Bundle,
			error) {
			return helmBundle(content, value(i))
		})
		if err != nil {
			return err
		}
		chart := strings.TrimSuffix(filepath.Base(files[0]), ".tgz")
		against := func(d time.Duration) string {
			return fmt.Sprintf("%.0f × less than a helm template process, %d ms (to reach: 25)", ratio(rival, d),
				rival.Milliseconds())
		}
		engineRow(fmt.Sprintf("%s on %d clusters, one value each", chart, targets), one, against(one))
		engineRow(fmt.Sprintf("%s on %d clusters, all names differ", chart, targets), sluice, against(sluice))
	}
	return nil
}

// processCost returns the smallest processor time of a process.
func (b *bench) processCost(rounds int, command func(i int) (string, []string)) (time.Duration, error) {
	i := 0
	return least(rounds, func() (time.Duration, error) {
		name, args := command(i)
		i++
		m, err := b.command(b.dir, name, args...)
		return m.cpu, err
	})
}

// overlays compares Kustomize overlays of one base with `kustomize build`.
func (b *bench) overlays(clusters int) error {
	rival := os.Getenv("KUSTOMIZE_BIN")
	if rival == "" {
		fmt.Println("overlays: left out, KUSTOMIZE_BIN is not set")
		return nil
	}
	dir := filepath.Join(b.dir, "overlays")
	base := map[string]string{"base/kustomization.yaml": "resources: [objects.yaml]\nlabels: [{pairs: {app: web}, includeSelectors: true}]\n", "base/objects.yaml": overlayBase}
	for name, text := range base {
		if err := write(dir, name, text); err != nil {
			return err
		}
	}
	for i := range 5 {
		for name, text := range overlay(i) {
			if err := write(dir, name, text); err != nil {
				return err
			}
		}
	}
	each, err := b.processCost(5, func(i int) (string, []string) {
		return rival, []string{"build", filepath.Join(dir, fmt.Sprintf("c-%04d", i))}
	})
	if err != nil {
		return err
	}
	sluice, err := b.sluiceCost(clusters, func(i int) (*renderer.Bundle, error) {
		content := renderer.Content{Name: "overlays", Digest: fmt.Sprint("overlays-", i)}
		for _, files := range []map[string]string{base, overlay(i)} {
			for name, text := range files {
				content.Files = append(content.Files, renderer.File{Path: name, Data: []byte(text)})
			}
		}
		source := &renderer.KustomizeSource{Files: content, Root: fmt.Sprintf("c-%04d", i)}
		return &renderer.Bundle{Namespace: "web", KubeVersion: "1.33.2",
			Sources: []renderer.Source{{Kustomize: source}}}, nil
	})
	if err != nil {
		return err
	}
	engineRow(fmt.Sprintf("an overlay for each of %d clusters", clusters), sluice,
		fmt.Sprintf("%.0f × less than a kustomize build process, %d ms (to reach: 10)", ratio(each, sluice),
			each.Milliseconds()))
	return nil
}

const overlayBase = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  template:
    spec:
      containers: [{name: main, image: registry.example.com/web, env: [{name: CLUSTER, value: none}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
`

// overlay returns the overlay of a cluster: a strategic merge patch, an image and a generated ConfigMap.
func overlay(i int) map[string]string {
	dir := fmt.Sprintf("c-%04d/", i)
	return map[string]string{
		dir + "kustomization.yaml": fmt.Sprintf("namespace: web\nresources: [../base]\nimages: [{name: registry.example.com/web, newTag: \"1.%d\"}]\nconfigMapGenerator: [{name: web, literals: [cluster=c-%04d]}]\npatches: [{path: patch.yaml}]\n", i, i),
		dir + "patch.yaml":         fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  template:\n    spec:\n      containers: [{name: main, env: [{name: CLUSTER, value: c-%04d}]}]\n", i),
	}
}

func write(dir, name, text string) error {
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
