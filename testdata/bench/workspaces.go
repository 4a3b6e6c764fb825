package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	tenants    = 200
	tenantApps = 5
)

// tenancy measures fleets of workspaces.
type tenancy struct{ *bench }

// run measures the change of one workspace in a fleet of many, beside the same change in a fleet of one, and a look at many other
// repositories of which none moved.
func (b tenancy) run(clusters int) error {
	if err := b.beside(clusters); err != nil {
		return err
	}
	return b.pinned(tenants)
}

// beside hydrates a change of one app of one workspace.
func (b tenancy) beside(clusters int) error {
	fmt.Printf("\n== one workspace's change, 1 and %d workspaces × %d clusters × %d apps\n", tenants, clusters, tenantApps)
	var changes, checks [2]measured
	for i, n := range []int{1, tenants} {
		src := filepath.Join(b.dir, fmt.Sprintf("tenants-%d", n))
		if err := tenantFleet(src, n, clusters); err != nil {
			return err
		}
		if err := repositories(b).publish(src); err != nil {
			return err
		}
		first, err := b.hydrate(src, "--push")
		if err != nil {
			return err
		}
		row(fmt.Sprintf("%d × first", n), first, fmt.Sprintf("%d targets", n*clusters*tenantApps))
		if changes[i], checks[i], err = b.tenantChange(src, n); err != nil {
			return err
		}
	}
	fmt.Printf("change of one workspace among %d against alone: hydration %.2f × (processor time %.2f ×), diff %.2f × (processor time %.2f ×) (to reach: 1.3)\n", tenants,
		ratio(changes[1].wall, changes[0].wall), ratio(changes[1].cpu, changes[0].cpu), ratio(checks[1].wall, checks[0].wall), ratio(checks[1].cpu, checks[0].cpu))
	return nil
}

// tenantChange returns the median times of the hydration and of the diff of a change in one workspace.
func (b tenancy) tenantChange(src string, workspaces int) (hydration, diff measured, err error) {
	var took, diffs []measured
	for round := range 5 {
		if err := b.edit(src, "workspaces/team-000/objects/app-1/c.yaml", tenantObject(1, round+1)); err != nil {
			return hydration, diff, err
		}
		d, err := b.command(src, b.sluice, "diff", "-q", "HEAD~1..HEAD", "-o", "markdown")
		if err != nil {
			return hydration, diff, err
		}
		m, err := b.hydrate(src, "--push")
		if err != nil {
			return hydration, diff, err
		}
		took, diffs = append(took, m), append(diffs, d)
	}
	hydration, diff = middle(took), middle(diffs)
	row(fmt.Sprintf("%d × one app's change", workspaces), hydration, fmt.Sprintf("%.0f ms of processor time", milliseconds(hydration.cpu)))
	row(fmt.Sprintf("%d × its diff", workspaces), diff, fmt.Sprintf("%.0f ms of processor time", milliseconds(diff.cpu)))
	return hydration, diff, nil
}

// middle returns the medians of runs of a command, each of its own order, and their largest memory.
func middle(runs []measured) measured {
	var wall, cpu []time.Duration
	var out measured
	for _, m := range runs {
		wall, cpu = append(wall, m.wall), append(cpu, m.cpu)
		out.peak = max(out.peak, m.peak)
	}
	out.wall, out.cpu = median(wall), median(cpu)
	return out
}

func tenantObject(app, version int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app-%d}\ndata: {version: \"%d\", greeting: hello}\n", app, version)
}

// tenantFleet writes a fleet of workspaces with apps of manifests.
func tenantFleet(dir string, workspaces, clusters int) error {
	const head = "apiVersion: sluice.dev/v1alpha1\nkind: "
	files := map[string]string{"sluice.yaml": head + "Fleet\nmetadata: {name: bench}\nspec:\n  environments: [{name: prod}]\n"}
	var list strings.Builder
	for i := range clusters {
		fmt.Fprintf(&list, "---\n%sCluster\nmetadata: {name: c-%04d}\nspec: {environment: prod, kubeVersion: 1.33.2}\n", head, i)
	}
	files["clusters/all.yaml"] = list.String()
	for i := range workspaces {
		name := fmt.Sprintf("team-%03d", i)
		files["workspaces/"+name+".yaml"] = head + "Workspace\nmetadata: {name: " + name + "}\nspec: {clusters: {}, namespaces: [" + name + "], quotas: {objects: 100}}\n"
		for app := range tenantApps {
			files[fmt.Sprintf("workspaces/%s/apps/app-%d/app.yaml", name, app)] = fmt.Sprintf("%sApp\nmetadata: {name: app-%d}\nspec: {namespace: %s, placement: {}, source: {manifests: {path: objects/app-%d}}}\n", head, app, name, app)
			files[fmt.Sprintf("workspaces/%s/objects/app-%d/c.yaml", name, app)] = tenantObject(app, 0)
		}
	}
	return writeFiles(dir, files)
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pinned looks at declared repositories of which none moved, as a sweep does.
func (b tenancy) pinned(repositories int) error {
	fmt.Printf("\n== %d other repositories, of which none moved since sluice.lock\n", repositories)
	s, err := b.site("pinned")
	if err != nil {
		return err
	}
	defer s.close()
	fleet := filepath.Join(s.dir, "fleet")
	files := map[string]string{
		"sluice.yaml":     "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: bench}\nspec: {environments: [{name: prod}]}\n",
		"clusters/c.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {environment: prod}\n",
	}
	if err := generate(filepath.Join(s.dir, "rival"), 1, 1, globalValues); err != nil {
		return err
	}
	if _, err := b.rival(filepath.Join(s.dir, "rival"), 1, 1); err != nil {
		return err
	}
	for i := range repositories {
		name := fmt.Sprintf("acme/other-%03d", i)
		src := s.work(name)
		if err := writeFiles(src, map[string]string{"c.yaml": tenantObject(i, 0)}); err != nil {
			return err
		}
		if err := s.add(name, src); err != nil {
			return err
		}
		files[fmt.Sprintf("repositories/other-%03d.yaml", i)] = fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Repository\nmetadata: {name: other-%03d}\nspec: {url: \"%s/%s.git\", branch: main}\n", i, s.git.URL, name)
	}
	if err := writeFiles(fleet, files); err != nil {
		return err
	}
	for _, args := range [][]string{{"-C", fleet, "init", "-q", "-b", "main"}, {"-C", fleet, "add", "-A"}, {"-C", fleet, "commit", "-qm", "start"}} {
		if _, err := b.command("", "git", args...); err != nil {
			return err
		}
	}
	if _, err := b.command(fleet, b.sluice, "deps", "lock"); err != nil {
		return err
	}
	var asked []time.Duration
	for i := range 21 {
		m, err := b.command("", "git", "ls-remote", fmt.Sprintf("%s/acme/other-%03d.git", s.git.URL, i), "refs/heads/main")
		if err != nil {
			return err
		}
		asked = append(asked, m.wall)
	}
	one := median(asked)
	var took []time.Duration
	for range 3 {
		m, err := b.command(fleet, b.sluice, "deps", "outdated")
		if err != nil {
			return err
		}
		took = append(took, m.wall)
	}
	most := 10*b.helmOne + time.Duration(repositories)*one
	fmt.Printf("sluice deps outdated %.2f s; one git ls-remote %.3f s; %.2f of ten helm template and %d ls-remote (to reach: 1)\n",
		median(took).Seconds(), one.Seconds(), ratio(median(took), most), repositories)
	return nil
}
