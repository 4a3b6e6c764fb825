package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// link returns the address of a merge request of the repository.
func (c *companion) link(number int) string { return linkTo(c.story, c.path, number) }

func linkTo(s *story, path string, number int) string {
	if s.hub != nil {
		return fmt.Sprintf("%s/%s/pull/%d", s.git.URL, path, number)
	}
	return fmt.Sprintf("%s/%s/-/merge_requests/%d", s.git.URL, path, number)
}

// named returns how the report names a merge request.
func named(s *story, path string, number int) string {
	if s.hub != nil {
		return fmt.Sprintf("%s#%d", path, number)
	}
	return fmt.Sprintf("%s!%d", path, number)
}

// redescribe changes the description of a merge request of the repository.
func (c *companion) redescribe(number int, text string) {
	c.t.Helper()
	if c.hub == nil {
		c.lab.Describe(c.path, number, text)
	} else if err := fakegithub.DescribePR(c.hub, c.path, number, text); err != nil {
		c.t.Fatal(err)
	}
}

// land merges a merge request of the repository.
func (c *companion) land(number int) {
	c.t.Helper()
	var err error
	if c.hub == nil {
		_, err = c.lab.Merge(c.path, number, "mia")
	} else {
		_, err = c.hub.MergePR(c.path, number, "mia")
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// withdraw closes a merge request of the repository without a merge.
func (c *companion) withdraw(number int) {
	c.t.Helper()
	if c.hub == nil {
		c.lab.Close(c.path, number)
	} else if err := c.hub.ClosePR(c.path, number); err != nil {
		c.t.Fatal(err)
	}
}

// rename opens a merge request of the fleet that installs web into another namespace, with a description.
func (s *story) rename(namespace, text string) int {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", namespace, "origin/main")
	file := filepath.Join(work, "apps/web/app.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(read(s.t, file), "namespace: web", "namespace: "+namespace, 1)),
		0o600); err != nil {
		s.t.Fatal(err)
	}
	s.commit("move web to " + namespace)
	s.push(namespace)
	return (&companion{story: s, path: repo}).describe(namespace, "ada", text)
}

// shown waits until the bot's only comment on a merge request contains texts and lacks others, and the status of its
// head is as expected.
func (s *story) shown(number int, state string, has, lacks []string) {
	s.t.Helper()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the comments on %d are now\n%s\nstatus %s", number, s.all(number),
				s.status(s.head(number), "sluice"))
		}
	})
	s.until(fmt.Sprintf("the comment on %d has %q, lacks %q, and the status is %s", number, has, lacks, state),
		func() bool {
			all := s.comments(number)
			if len(all) == 0 || !strings.HasPrefix(s.status(s.head(number), "sluice"), state) {
				return false
			}
			comment := strings.ReplaceAll(all[0], "`", "")
			for _, text := range has {
				if !strings.Contains(comment, text) {
					return false
				}
			}
			for _, text := range lacks {
				if strings.Contains(comment, text) {
					return false
				}
			}
			return true
		})
}

// A change of two repositories is reviewed as one before either of them is merged, and waits for the merge of the
// other.
func TestDependsOn(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := withCompanion(s)
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		c.publish("two", "two")
		first := c.request("two", "ada")
		name := named(s, components, first)
		n := s.rename("web-new", "Together with another change.\n\nDepends-On: "+c.link(first)+"\n")
		s.shown(n, "pending", []string{
			"web-new", "a: two", name, "open, rendered here",
			"This merge request waits for",
		}, nil)
		c.shows(first, "two", "+  a: two")
		if got := c.report(first); strings.Contains(got, "web-new") {
			t.Errorf("the companion shows what depends on it:\n%s", got)
		}

		// A push to one refreshes the other.
		c.publish("two", "three")
		c.moved(first)
		s.shown(n, "pending", []string{"web-new", "a: three"}, []string{"a: two"})
		c.shows(first, "two", "+  a: three") // the answer names the state of this review, and is written once
		s.say(n, "ada", "/sluice depends")
		s.until("the set is answered", func() bool {
			all := s.comments(n)
			return len(all) == 2 && strings.Contains(all[1], name) &&
				strings.Contains(all[1], "its own review: success")
		})

		// The sweep finds a push whose webhook is lost.
		s.drop = func(string) bool { return true }
		c.publish("two", "four")
		c.moved(first)
		s.shown(n, "pending", []string{"a: four"}, nil)
		s.drop = func(string) bool { return false }

		c.land(first)
		s.shown(n, "success", []string{"web-new", "merged"}, []string{"a: four", "This merge request waits for"})
		s.merge(n)
		s.until("dev has it", func() bool { return s.holds("cluster/dev-1", "web-new") })
	})
}

// What cannot be taken in is named, and a merge request does not pass before its companions are merged.
func TestDependsOnWhatCannotBe(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := withCompanion(s)
		undeclared := s.repository("acme/undeclared")
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		c.publish("two", "two")
		first := c.request("two", "ada")
		undeclared.publish("secret", "secret")
		other := undeclared.request("secret", "ada")
		n := s.rename("web-new", "Depends-On: "+c.link(first))
		s.shown(n, "pending", []string{"a: two"}, nil)

		fleet := &companion{story: s, path: repo}
		wrong := []string{undeclared.link(other), c.link(77), linkTo(s, "elsewhere/components", 1), s.git.URL + "/" +
			components, fleet.link(n)}
		fleet.redescribe(n, "Depends-On: "+strings.Join(wrong, "\nDepends-On: "))
		s.shown(n, "fail", []string{
			named(s, "acme/undeclared", other) + ": the trunk of the fleet does not declare this repository",
			named(s, components, 77) + " does not exist",
			linkTo(s, "elsewhere/components", 1) + " does not name a merge request",
			s.git.URL + "/" + components + " does not name a merge request",
			"depend on each other",
		}, []string{"a: two", "secret"})

		// A cycle through another repository.
		c.redescribe(first, "Depends-On: "+fleet.link(n))
		fleet.redescribe(n, "Depends-On: "+c.link(first))
		s.shown(n, "fail", []string{"a: two", named(s, repo, n) + " → " + named(s, components, first) + " → " +
			named(s, repo, n)}, nil)
		c.redescribe(first, "")
		s.shown(n, "pending", []string{"a: two"}, []string{"depend on each other"})

		c.withdraw(first)
		s.shown(n, "fail", []string{named(s, components, first) + " was closed without a merge"}, []string{"a: two"})
		fleet.redescribe(n, "Nothing any more.")
		s.shown(n, "success", []string{"web-new"}, []string{"Depends on", "was closed"})
	})
}

// A stranger's merge request is rendered with another one only after its own head is trusted, and what a stranger names
// is not rendered at all.
func TestDependsOnStrangers(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := withCompanion(s)
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		c.publish("gift", "horse")
		gift := c.request("gift", "eve")
		n := s.rename("web-new", "Depends-On: "+c.link(gift))
		s.shown(n, "pending", []string{"web-new", "it waits for trust"}, []string{"horse"})
		s.until("the gift waits for trust", func() bool { return strings.Contains(c.report(gift), "/sluice trust") })
		s.later(2 * time.Second)
		c.tell(gift, "ada", "/sluice trust")
		s.shown(n, "pending", []string{"web-new", "a: horse", "open, rendered here"}, nil)

		// eve's own merge request is trusted, and names one of a repository that she may not read.
		c.publish("two", "two")
		second := c.request("two", "ada")
		s.run(filepath.Join(s.dir, "work"), "checkout", "-q", "-B", "eves", "origin/main")
		s.set("CAD")
		s.commit("sell in CAD")
		s.push("eves")
		m := (&companion{story: s, path: repo}).describe("eves", "eve", "Depends-On: "+c.link(second))
		s.until("it waits for trust", func() bool { return strings.Contains(s.all(m), "/sluice trust") })
		if strings.Contains(s.all(m), "Depends on") {
			t.Errorf("the companion of a head that nobody trusts is looked at:\n%s", s.all(m))
		}
		s.later(2 * time.Second)
		s.say(m, "ada", "/sluice trust")
		s.shown(m, "fail", []string{"does not exist, or eve cannot read it", "CAD"}, []string{"a: two"})
	})
}

// A person who writes the components and reads the fleet has a change of the fleet trusted that gives the name of the
// components to another repository of the fleet. Her merge request in the components does not show that repository.
func TestDependsOnAFleetThatRenamesRepositories(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := withCompanion(s)
		v := s.repository("acme/vault")
		v.publish("main", "topsecret")
		for path, level := range map[string]int{components: fakegitlab.Developer, repo: fakegitlab.Reporter} {
			if s.hub != nil {
				s.hub.Grant(path, "eve", map[int]string{
					fakegitlab.Developer: "write",
					fakegitlab.Reporter:  "read",
				}[level])
			} else {
				s.lab.Grant(path, "eve", level)
			}
		}
		const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
		work, address := filepath.Join(s.dir, "work"), s.git.URL+"/acme/vault.git"
		entry := func(name, address, commit string) string {
			return fmt.Sprintf("  - {name: %s, url: %q, wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n", name, address, commit)
		}
		const lock = base + "Lock\ncharts: []\nrepositories:\n"
		writeAll(s, work, map[string]string{
			"repositories/vault.yaml": base + "Repository\nmetadata: {name: vault}\nspec: {url: \"" + address +
				"\", branch: main}\n",
			"apps/safe/app.yaml": base +
				"App\nmetadata: {name: safe}\nspec: {namespace: safe, placement: {}, source: {manifests: {path: web, repository: vault}}}\n",
			"sluice.lock": lock + entry("components", s.git.URL+"/"+components+".git", c.tip("main")) +
				entry("vault", address, v.tip("main")),
		})
		s.commit("vault")
		s.push("main")
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })

		s.run(work, "checkout", "-q", "-B", "eves", "main")
		s.run(work, "rm", "-q", "-r", "apps/safe", "repositories/vault.yaml")
		writeAll(s, work, map[string]string{
			"repositories/components.yaml": base + "Repository\nmetadata: {name: components}\nspec: {url: \"" +
				address + "\", branch: main, reviews: true}\n",
			"sluice.lock": lock + entry("components", address, v.tip("main")),
		})
		s.commit("tidy up")
		s.push("eves")
		m := (&companion{story: s, path: repo}).describe("eves", "eve", "")
		s.until("it waits for trust", func() bool { return strings.Contains(s.all(m), "/sluice trust") })
		s.later(2 * time.Second)
		s.say(m, "ada", "/sluice trust")
		s.until("it is reviewed", func() bool { return !strings.HasPrefix(s.status(s.head(m), "sluice"), "pending") })

		c.publish("mine", "mine")
		n := c.describe("mine", "eve", "Depends-On: "+linkTo(s, repo, m))
		c.pends(n, "mine", named(s, repo, m), "it changes files that can declare repositories")
		if got := c.report(n); strings.Contains(got, "topsecret") {
			t.Errorf("content of acme/vault is shown in acme/components:\n%s", got)
		}
	})
}
