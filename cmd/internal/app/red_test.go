package app_test

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// byApp writes the status of each app of a cluster branch's tip, as Flux does: that of one app is red, the others are
// green.
func (s *story) byApp(branch, red string) {
	s.t.Helper()
	sha := s.ref(branch)
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", s.bare(repo), "ls-tree",
		"-r", "--name-only", sha).Output()
	if err != nil {
		s.t.Fatalf("files of %s: %v", branch, err)
	}
	apps := map[string]bool{}
	for file := range strings.FieldsSeq(string(out)) {
		if app := strings.TrimPrefix(path.Dir(file), "workspaces/"); !strings.HasPrefix(app, ".") {
			apps[strings.ReplaceAll(app, "/", ".")] = true
		}
	}
	for app := range apps {
		state := "success"
		if app == red {
			state = "failure"
		}
		s.posts(sha, "kustomization/"+app+strings.TrimPrefix(branch, "cluster"), state)
	}
}

// A workspace whose apps alone are red on the canary goes back there, and one that is red in the environment before
// does not come. The other workspace does not wait for it.
func TestRedWorkspaceOfTheService(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
		fleet := regexp.MustCompile(`(?m)^ +(approvers|onFailure): .*\n`).ReplaceAllString(gated, "")
		fleet = strings.ReplaceAll(fleet, "        mode: manual\n",
			"        mode: auto\n        onWorkspaceFailure: rollback\n")
		fleet = strings.ReplaceAll(fleet, "    - name: staging\n      after: [dev]\n      promotion: {mode: auto}\n",
			"")
		fleet = strings.ReplaceAll(fleet, "after: [staging]", "after: [dev]")
		files := map[string]string{"sluice.yaml": fleet}
		for _, name := range []string{"team-a", "team-b"} {
			files["workspaces/"+name+".yaml"] = base + "Workspace\nmetadata: {name: " + name +
				"}\nspec: {clusters: {}, namespaces: [" + name + "]}\n"
			files["workspaces/"+name+"/apps/cart/app.yaml"] = fmt.Sprintf(tenantApp, "cart", name, "path: objects")
			files["workspaces/"+name+"/objects/cart.yaml"] = fmt.Sprintf(tenantObject, "cart-"+name, name+"-one")
		}
		work := filepath.Join(s.dir, "work")
		writeAll(s, work, files)
		s.run(work, "rm", "-q", "clusters/staging-1.yaml", "clusters/staging-edge-1.yaml")
		s.commit("two workspaces")
		s.push("main")
		s.start()

		// what each workspace says on a cluster
		has := func(cluster, a, b string) {
			t.Helper()
			s.until(cluster+" has "+a+" and "+b, func() bool {
				return s.holds("cluster/"+cluster, "team-a-"+a) && s.holds("cluster/"+cluster, "team-b-"+b)
			})
		}
		change := func(text string) {
			s.run(work, "fetch", "-q", "origin")
			s.run(work, "checkout", "-q", "-B", "main", "origin/main")
			for _, name := range []string{"team-a", "team-b"} {
				writeAll(s, work, map[string]string{"workspaces/" + name +
					"/objects/cart.yaml": fmt.Sprintf(tenantObject, "cart-"+name, name+"-"+text)})
			}
			s.commit("both teams say " + text)
			s.push("main")
		}
		dev := func(text, red string) {
			t.Helper()
			for _, cluster := range []string{"dev-1", "dev-edge-1"} {
				has(cluster, text, text)
				s.byApp("cluster/"+cluster, red)
			}
		}
		rest := []string{"prod-us-1", "prod-edge-1"}
		prod := func(a, b string) {
			t.Helper()
			has("prod-eu-1", a, b)
			s.byApp("cluster/prod-eu-1", "")
			for _, cluster := range rest {
				has(cluster, a, b)
				s.byApp("cluster/"+cluster, "")
			}
		}
		dev("one", "")
		prod("one", "one")

		change("two")
		dev("two", "")
		has("prod-eu-1", "two", "two")
		s.byApp("cluster/prod-eu-1", "team-a.cart")
		prod("one", "two")

		change("three") // its own change ends the hold, but it is red in dev
		dev("three", "team-a.cart")
		prod("one", "three")

		change("four")
		dev("four", "")
		prod("four", "four")
	})
}
