package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// components is a repository that the fleet takes content from.
const components = "acme/components"

// companion is such a repository on the forge of a story.
type companion struct {
	*story
	path       string
	bare, work string
}

// repository creates a repository that the service is configured for, with a trunk.
func (s *story) repository(path string) *companion {
	s.t.Helper()
	c := &companion{story: s, path: path, bare: s.other(path), work: filepath.Join(s.dir, filepath.Base(path))}
	if s.tea != nil {
		s.tea.check(s.tea.Grant(s.tea.life, path, "ada", "write"))
		s.tea.check(s.tea.Grant(s.tea.life, path, "mia", "admin"))
	} else {
		c.grant()
	}
	s.run("", "init", "-q", "-b", "main", c.work)
	c.publish("main", "one")
	s.config = strings.Replace(s.config, "repositories: ["+repo, "repositories: ["+repo+", "+path, 1)
	return c
}

// grant gives ada and mia their permissions on a fake.
func (c *companion) grant() {
	for login, level := range map[string]int{"ada": fakegitlab.Developer, "mia": fakegitlab.Maintainer} {
		if c.hub != nil {
			c.hub.Grant(c.path, login, map[int]string{
				fakegitlab.Developer:  "write",
				fakegitlab.Maintainer: "maintain",
			}[level])
		} else {
			c.lab.Grant(c.path, login, level)
		}
	}
}

// withCompanion creates the repository, and has the fleet take an app from it.
func withCompanion(s *story) *companion {
	s.t.Helper()
	c := s.repository(components)
	address := s.git.URL + "/" + components + ".git"
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	for name, text := range map[string]string{
		"repositories/components.yaml": base + "Repository\nmetadata: {name: components}\nspec: {url: \"" + address +
			"\", branch: main, reviews: true}\n",
		"apps/web/app.yaml": base +
			"App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: web, repository: components}}}\n",
		"sluice.lock": base + "Lock\ncharts: []\nrepositories:\n" +
			fmt.Sprintf("  - {name: components, url: %q, wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n", address, c.tip("main")),
	} {
		file := filepath.Join(s.dir, "work", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.commit("take web from components")
	s.push("main")
	return c
}

// publish pushes a value to a branch, which begins at main.
func (c *companion) publish(branch, value string) {
	c.t.Helper()
	if branch != "main" {
		c.run(c.work, "checkout", "-q", "-B", branch, "main")
	}
	file := filepath.Join(c.work, "web/cm.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: "+value+
		"}\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run(c.work, "add", "-A")
	c.run(c.work, "commit", "-q", "-m", "say "+value)
	c.run(c.work, "push", "-q", "-f", c.remote(c.path), "HEAD:"+branch)
}

// tip returns a branch's commit in the repository.
func (c *companion) tip(branch string) string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "git", "-C", c.bare, "rev-parse", branch).Output()
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// request opens a merge request in the repository.
func (c *companion) request(branch, author string) int { return c.describe(branch, author, "") }

// describe opens a merge request with a description.
func (c *companion) describe(branch, author, text string) int {
	c.t.Helper()
	if c.hub != nil {
		pr, err := c.hub.OpenPR(c.path, fakegithub.PR{
			Title: "Change " + branch, Body: text, Author: author,
			Head: branch,
		})
		if err != nil {
			c.t.Fatal(err)
		}
		return pr.Number
	}
	if c.tea != nil {
		return c.tea.open(c.path, bedtest.GiteaRequest{Body: text, Author: author, Source: branch})
	}
	return c.lab.Open(c.path, fakegitlab.MergeRequest{
		Title: "Change " + branch, Body: text, Author: author,
		SourceBranch: branch,
	})
}

// moved announces the new head of a merge request of the repository.
func (c *companion) moved(number int) {
	c.t.Helper()
	if c.tea != nil { // Gitea notices a push itself
		return
	}
	if c.hub == nil {
		c.lab.Push(c.path, number)
		return
	}
	if _, err := c.hub.PushPR(c.path, number); err != nil {
		c.t.Fatal(err)
	}
}

func (c *companion) tell(number int, login, text string) {
	c.t.Helper()
	if c.tea != nil {
		_, err := c.tea.Comment(c.tea.life, c.path, number, login, text)
		c.tea.check(err)
		return
	}
	if c.hub == nil {
		c.lab.Comment(c.path, number, login, text)
		return
	}
	if _, err := c.hub.CommentPR(c.path, number, login, text); err != nil {
		c.t.Fatal(err)
	}
}

// report returns the comments of the bot on a merge request of the repository.
func (c *companion) report(number int) string {
	if c.tea != nil {
		return strings.Join(c.tea.said(c.path, number, c.self), "\n====\n")
	}
	var out []string
	if c.hub != nil {
		for _, one := range c.hub.Comments(c.path, number) {
			if one.Author == c.self {
				out = append(out, one.Body)
			}
		}
	} else {
		for _, one := range c.lab.Notes(c.path, number) {
			if one.Author == c.self {
				out = append(out, one.Body)
			}
		}
	}
	return strings.Join(out, "\n====\n")
}

// verdict returns the status of a commit of the repository.
func (c *companion) verdict(sha string) string {
	if c.tea != nil {
		state := c.tea.state(c.path, sha, "sluice")
		return state
	}
	if c.hub == nil {
		return c.lab.Statuses(c.path, sha)["sluice"]
	}
	state := ""
	for _, one := range c.hub.Statuses(c.path, sha) {
		if one.Context == "sluice" {
			state = one.State
		}
	}
	return state
}

// shows waits for a review of the head of a branch that contains a text.
func (c *companion) shows(number int, branch, text string) {
	c.t.Helper()
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("the comments on %d are now\n%s", number, c.report(number))
		}
	})
	c.until(fmt.Sprintf("the comment on %d says %q", number, text), func() bool {
		return strings.Contains(c.report(number), text) && c.verdict(c.tip(branch)) == "success"
	})
}

// A merge request of a repository that the fleet takes content from shows what it does to the fleet, also if its
// webhooks are lost.
func TestMergeRequestsOfOtherRepositories(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := withCompanion(s)
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		c.publish("two", "two")
		n := c.request("two", "ada")
		c.shows(n, "two", "+  a: two")
		if got := c.report(n); strings.Contains(got, "shop") || strings.Contains(got, "====") {
			t.Errorf("the report is not of the app alone:\n%s", got)
		}
		c.publish("two", "three")
		c.moved(n)
		c.shows(n, "two", "+  a: three")

		// The sweep finds what no webhook tells.
		s.drop = func(string) bool { return true }
		c.publish("lost", "four")
		lost := c.request("lost", "ada")
		c.shows(lost, "lost", "+  a: four")

		// A new trunk of the fleet is compared with.
		if err := os.WriteFile(filepath.Join(s.dir, "work/apps/web/app.yaml"),
			[]byte(strings.Replace(read(t, filepath.Join(s.dir, "work/apps/web/app.yaml")), "namespace: web",
				"namespace: web-new", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.commit("another namespace")
		s.push("main")
		c.shows(lost, "lost", "web-new")

		// A fleet that no longer asks for reviews leaves no comment that looks current.
		declaration := filepath.Join(s.dir, "work/repositories/components.yaml")
		if err := os.WriteFile(declaration, []byte(strings.Replace(read(t, declaration), ", reviews: true", "", 1)),
			0o600); err != nil {
			t.Fatal(err)
		}
		s.commit("no reviews")
		s.push("main")
		s.until("the comments say so", func() bool {
			return strings.Contains(c.report(n), "no longer asks for reviews") &&
				strings.Contains(c.report(lost), "no longer asks for reviews") &&
				!strings.Contains(c.report(lost), "web-new")
		})
	})
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Who may have a merge request rendered is decided by the permissions in its own repository.
func TestStrangersInOtherRepositories(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := withCompanion(s)
		s.grantRead("eve") // of the fleet
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		c.publish("gift", "horse")
		n := c.request("gift", "eve")
		s.until("it waits", func() bool { return c.verdict(c.tip("gift")) == "pending" })
		if got := c.report(n); strings.Contains(got, "horse") {
			t.Errorf("a stranger's change is rendered:\n%s", got)
		}
		s.later(2 * time.Second)
		c.tell(n, "ada", "/sluice trust")
		c.shows(n, "gift", "+  a: horse")
		c.tell(n, "ada", "/sluice diff")
		s.until("there is no fleet to ask", func() bool {
			return strings.Contains(c.report(n),
				"this repository has no fleet")
		})
	})
}
