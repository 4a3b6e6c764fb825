package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put pushes files to a branch of the repository, which begins at main.
func (c *companion) put(branch string, files map[string]string) {
	c.t.Helper()
	if branch != "main" {
		c.run(c.work, "checkout", "-q", "-B", branch, "main")
	}
	writeAll(c.story, c.work, files)
	c.run(c.work, "add", "-A")
	c.run(c.work, "commit", "-q", "-m", "change "+branch)
	c.run(c.work, "push", "-q", "-f", c.remote(c.path), "HEAD:"+branch)
}

func writeAll(s *story, dir string, files map[string]string) {
	s.t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// An app of a workspace that takes its objects from a path, and one such object.
const (
	tenantApp    = "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %s}\nspec: {namespace: %s, placement: {}, source: {manifests: {%s}}}\n"
	tenantObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {says: %s}\n"
)

// Four repositories: components, two workspaces and the fleet. A change of a workspace and of the components is shown
// before either is merged, on the workspace's merge request, and it does not concern the other workspace.
func TestFourRepositories(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := withCompanion(s)
		teams := map[string]*companion{}
		const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
		files := map[string]string{}
		lock := read(t, filepath.Join(s.dir, "work/sluice.lock"))
		for _, name := range []string{"team-a", "team-b"} {
			team := s.repository("acme/" + name)
			team.put("main", map[string]string{
				"apps/cart/app.yaml": fmt.Sprintf(tenantApp, "cart", name, "path: objects"),
				"objects/cart.yaml":  fmt.Sprintf(tenantObject, "cart", "hello"),
				"apps/web/app.yaml":  fmt.Sprintf(tenantApp, "web", name, "path: web, repository: components"),
			})
			address := s.git.URL + "/" + team.path + ".git"
			files["repositories/"+name+".yaml"] = base + "Repository\nmetadata: {name: " + name + "}\nspec: {url: \"" +
				address + "\", branch: main, reviews: true}\n"
			files["workspaces/"+name+".yaml"] = base + "Workspace\nmetadata: {name: " + name +
				"}\nspec: {clusters: {}, namespaces: [" + name + "], repository: " + name +
				", sources: {repositories: [components]}}\n"
			lock += fmt.Sprintf("  - {name: %s, url: %q, wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n", name, address, team.tip("main"))
			teams[name] = team
		}
		files["sluice.lock"] = lock
		declared := "repositories/components.yaml"
		files[declared] = strings.Replace(read(t, filepath.Join(s.dir, "work", declared)), "reviews: true",
			"reviews: true, shownIn: [team-a]", 1)
		writeAll(s, filepath.Join(s.dir, "work"), files)
		s.commit("two workspaces")
		s.push("main")
		s.start()
		s.until("dev has both workspaces", func() bool {
			return s.holds("cluster/dev-1", "namespace: team-a") && s.holds("cluster/dev-1", "namespace: team-b")
		})

		c.publish("two", "two")
		first := c.request("two", "ada")
		c.shows(first, "two", "+  a: two")
		a := teams["team-a"]
		a.put("bye", map[string]string{"objects/cart.yaml": fmt.Sprintf(tenantObject, "cart", "goodbye")})
		n := a.describe("bye", "ada", "Depends-On: "+c.link(first))
		a.pends(n, "bye", "+  says: goodbye", "+  a: two", "open, rendered here")

		// The team's merge request without the other one is not shown anywhere else, and webhooks may be lost.
		if got := c.report(first); strings.Contains(got, "goodbye") {
			t.Errorf("the components show the workspace's change:\n%s", got)
		}
		s.drop = func(string) bool { return true }
		c.publish("two", "three")
		c.moved(first)
		a.pends(n, "bye", "+  says: goodbye", "+  a: three")
		a.put("bye", map[string]string{"objects/cart.yaml": fmt.Sprintf(tenantObject, "cart", "farewell")})
		a.moved(n)
		a.pends(n, "bye", "+  says: farewell", "+  a: three")
		s.drop = func(string) bool { return false }

		b := teams["team-b"]
		b.put("hi", map[string]string{"objects/cart.yaml": fmt.Sprintf(tenantObject, "cart", "hi")})
		alone := b.request("hi", "ada")
		b.shows(alone, "hi", "+  says: hi")
		if got := b.report(alone); strings.Contains(got, "team-a") || strings.Contains(got, "a: t") {
			t.Errorf("a change of one workspace shows others:\n%s", got)
		}
		c.land(first)
		a.shows(n, "bye", "merged")
		if got := a.report(n); strings.Contains(got, "a: three") || !strings.Contains(got, "farewell") {
			t.Errorf("the merged components are compared again:\n%s", got)
		}
	})
}

// pends waits for a review of the head of a branch that contains texts and waits for a companion.
func (c *companion) pends(number int, branch string, texts ...string) {
	c.t.Helper()
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("the comments on %s %d are now\n%s", c.path, number, c.report(number))
		}
	})
	c.until(fmt.Sprintf("the comment on %s %d has %q and waits", c.path, number, texts), func() bool {
		got := c.report(number)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return false
			}
		}
		return strings.HasPrefix(c.verdict(c.tip(branch)), "pending")
	})
}

// A person who may only read the fleet's repository approves the promotion of the workspace that names them, and no
// other.
func TestApproversOfAWorkspaceByChat(t *testing.T) {
	s := newStory(t, "github")
	s.hub.Grant(repo, "zoe", "read")
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	files := map[string]string{
		"sluice.yaml": base + "Fleet\nmetadata: {name: harbour}\nspec:\n  trunk: main\n  layers: [class, environment, region, cluster]\n  environments:\n    - name: dev\n    - name: prod\n      after: [dev]\n" +
			"      promotion: {mode: manual, approvers: {users: [mia], count: 1}, rights: [{verbs: [promote], roles: [write]}]}\n",
	}
	for name, more := range map[string]string{"team-a": "approvers: {users: [zoe]}, ", "team-b": ""} {
		files["workspaces/"+name+".yaml"] = base + "Workspace\nmetadata: {name: " + name + "}\nspec: {" + more +
			"clusters: {}, namespaces: [" + name + "]}\n"
		files["workspaces/"+name+"/apps/cart/app.yaml"] = fmt.Sprintf(tenantApp, "cart", name, "path: objects")
		files["workspaces/"+name+"/objects/cart.yaml"] = fmt.Sprintf(tenantObject, "cart-"+name, "hello")
	}
	work := filepath.Join(s.dir, "work")
	writeAll(s, work, files)
	s.run(work, "rm", "-q", "clusters/staging-1.yaml", "clusters/staging-edge-1.yaml")
	s.commit("two workspaces")
	s.push("main")
	s.start()
	n := s.greet("two teams")
	s.says(n, "two teams")
	s.merge(n)
	s.until("dev has both", func() bool {
		return s.holds("cluster/dev-1", "cart-team-a") && s.holds("cluster/dev-1", "cart-team-b") &&
			s.holds("cluster/dev-1", "two teams")
	})
	says := func(text string) func() bool {
		return func() bool { return strings.Contains(strings.Join(s.comments(n), ""), text) }
	}
	s.say(n, "ada", "/sluice promote prod --workspace team-a")
	s.until("prod has no state that could keep the other apps", says("prod runs nothing yet"))
	s.say(n, "ada", "/sluice promote prod")
	s.until("it waits", says("0 of 1"))
	s.say(n, "mia", "/sluice approve prod")
	s.until("prod has both", func() bool {
		return s.holds("cluster/prod-eu-1", "cart-team-b") && s.holds("cluster/prod-us-1", "cart-team-b") &&
			s.holds("cluster/prod-edge-1", "cart-team-b")
	})
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", "main", "origin/main")
	for _, name := range []string{"team-a", "team-b"} {
		writeAll(s, work, map[string]string{"workspaces/" + name +
			"/objects/cart.yaml": fmt.Sprintf(tenantObject, "cart-"+name, name+"-changed")})
	}
	s.commit("both teams change")
	s.push("main")
	s.until("dev has the changes", func() bool {
		return s.holds("cluster/dev-1", "team-a-changed") && s.holds("cluster/dev-1", "team-b-changed")
	})
	s.say(n, "ada", "/sluice promote prod --workspace team-b")
	s.until("team-b is offered", says("promote prod --workspace team-b"))
	s.say(n, "zoe", "/sluice approve prod")
	s.until("zoe may not approve team-b",
		says("zoe is not among the approvers of prod; zoe is not among the approvers of workspace team-b either"))
	s.say(n, "ada", "/sluice promote prod --workspace team-a")
	s.until("team-a is offered", func() bool {
		// the first one was refused
		return strings.Count(strings.Join(s.comments(n), ""), "promote prod --workspace team-a") == 2
	})
	s.say(n, "zoe", "/sluice approve prod")
	s.until("prod has team-a", func() bool { return s.holds("cluster/prod-eu-1", "team-a-changed") })
	if s.holds("cluster/prod-eu-1", "team-b-changed") {
		t.Error("prod has team-b's change, which nobody approved")
	}
}
