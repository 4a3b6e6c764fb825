package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const followBranch = "sluice-follow/components"

// following is a story whose fleet follows the components.
func following(s *story, follow string) *companion {
	s.t.Helper()
	c := withCompanion(s)
	file := filepath.Join(s.dir, "work/repositories/components.yaml")
	writeAll(s, filepath.Join(s.dir, "work"),
		map[string]string{"repositories/components.yaml": strings.Replace(read(s.t, file), "reviews: true", "follow: "+
			follow, 1)})
	s.commit("follow components")
	s.push("main")
	return c
}

// release publishes a value on the trunk of the components, and sends the webhook.
func (c *companion) release(value string) {
	c.t.Helper()
	before := c.tip("main")
	c.publish("main", value)
	c.announce(before)
}

// announce sends the webhook of a push to the trunk of the components.
func (c *companion) announce(before string) {
	c.t.Helper()
	if c.hub == nil {
		c.lab.PushBranch(c.path, "main", before)
	} else if err := c.hub.Pushed(c.path, "main", before, "ada"); err != nil {
		c.t.Fatal(err)
	}
}

// requests returns the numbers of the fleet's merge requests.
func (s *story) requests() []int {
	if s.tea != nil {
		return s.tea.numbers(repo)
	}
	if s.hub == nil {
		return s.lab.Numbers(repo)
	}
	var out []int
	for _, pr := range s.hub.PRs(repo) {
		out = append(out, pr.Number)
	}
	return out
}

// text returns the title and the description of a merge request of the fleet, and whether it is open.
func (s *story) text(number int) (text string, open bool) {
	s.t.Helper()
	if s.hub != nil {
		pr, err := s.hub.PR(repo, number)
		if err != nil {
			s.t.Fatal(err)
		}
		return pr.Title + "\n" + pr.Body, pr.State == "open"
	}
	return s.lab.Text(repo, number)
}

// followed waits until the branch pins a commit of the components, on top of the trunk, and the number of merge
// requests is as expected.
func (c *companion) followed(requests int) {
	c.t.Helper()
	c.until(fmt.Sprintf("the branch pins %s in merge request %d", c.tip("main"), requests), func() bool {
		return len(c.requests()) == requests && c.holds(followBranch, c.tip("main")) &&
			c.commits("main.."+followBranch) == "1"
	})
}

// commits returns the number of the fleet's commits in a range.
func (s *story) commits(between string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", s.bare(repo), "rev-list",
		"--count", between).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// looked runs a function and waits until the service has looked at the followed repositories after it.
func (s *story) looked(change func()) {
	s.t.Helper()
	tasks := func() float64 { return s.metric("sluice_task_seconds_count", `kind="follow"`) }
	before := tasks()
	change()
	s.until("the service looks", func() bool { return tasks() > before })
}

// A merge request keeps the pin of a followed repository current until a person commits to its branch, and one that is
// closed is not opened again.
func TestFollow(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := following(s, "true")
		s.config = strings.Replace(s.config, "sweep: 5s", "sweep: 1h", 1) // webhooks start everything
		s.start()
		s.until("dev is hydrated", func() bool { return s.holds("env/dev", "a: one") })
		s.until("the service has looked", func() bool {
			return s.metric("sluice_task_seconds_count",
				`kind="follow"`) > 0
		})
		if got := s.requests(); len(got) > 0 {
			t.Fatalf("merge requests %v for a pin that is current", got)
		}

		c.release("two")
		c.followed(1)
		s.shown(1, "success", []string{"a: two"}, nil)
		if text, open := s.text(1); !open || !strings.Contains(text, "components: ") ||
			!strings.Contains(text, c.tip("main")) {
			t.Errorf("the merge request says\n%s", text)
		}
		c.release("three")
		c.followed(1)
		s.pushed(1) // the fakes send the webhook of a push to a merge request on demand
		s.shown(1, "success", []string{"a: three"}, []string{"a: two"})
		head := s.ref(followBranch)
		s.looked(func() { c.announce(c.tip("main")) }) // a repeated webhook
		if now := s.ref(followBranch); now != head {
			t.Errorf("the branch moved from %s to %s although nothing changed", head, now)
		}

		// A person adds to the branch.
		work := filepath.Join(s.dir, "work")
		s.run(work, "fetch", "-q", "origin")
		s.run(work, "checkout", "-q", "-B", "help", "origin/"+followBranch)
		s.set("CAD")
		s.commit("what the new components need")
		s.push(followBranch)
		s.pushed(1)
		head = s.ref(followBranch)
		s.looked(func() { c.release("four") })
		s.until("the merge request says so", func() bool {
			text, _ := s.text(1)
			return strings.Contains(text, "Somebody else has committed to this branch") &&
				strings.Contains(text, c.tip("main"))
		})
		if now := s.ref(followBranch); now != head {
			t.Fatalf("the branch of a person moved from %s to %s", head, now)
		}
		s.merge(1)
		s.until("dev has three", func() bool { return s.holds("env/dev", "a: three") })
		if !s.holds("main", "CAD") {
			t.Error("the trunk lacks what the person added")
		}
		c.followed(2) // the next commit has a merge request of its own
		s.shown(2, "success", []string{"a: four"}, nil)

		// A closed one was declined.
		s.shut(2)
		head = s.ref(followBranch)
		s.looked(func() { c.announce(c.tip("main")) })
		if got := s.requests(); len(got) != 2 || s.ref(followBranch) != head {
			t.Errorf("merge requests %v after one was declined", got)
		}
		s.run(work, "push", "-q", "origin", ":"+followBranch) // asks for it again
		s.looked(func() { c.announce(c.tip("main~2")) })      // the service processes equal payloads once
		c.followed(3)
		c.release("five")
		c.followed(3)

		// Somebody pins the commit by hand.
		s.run(work, "fetch", "-q", "origin")
		s.run(work, "checkout", "-q", "-B", "main", "origin/main")
		s.run(work, "merge", "-q", "--squash", "origin/"+followBranch)
		s.commit("pin five")
		s.looked(func() {
			s.push("main")
			s.hook("main")
		})
		s.until("the merge request is closed", func() bool {
			text, open := s.text(3)
			return !open && strings.Contains(text, "pins this commit already")
		})
	})
}

// hook sends the webhook of a push to a branch of the fleet.
func (s *story) hook(branch string) {
	s.t.Helper()
	if s.hub == nil {
		s.lab.PushBranch(repo, branch, "")
	} else if err := s.hub.Pushed(repo, branch, "", "ada"); err != nil {
		s.t.Fatal(err)
	}
}

// The sweep finds commits of a followed repository whose webhooks are lost. With commit, the trunk has them at once,
// and what a person undoes stays.
func TestFollowOnTheTrunk(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := following(s, "{commit: true}")
		s.drop = func(string) bool { return true }
		s.start()
		s.until("dev is hydrated", func() bool { return s.holds("env/dev", "a: one") })
		c.publish("main", "two")
		s.until("dev has it", func() bool { return s.holds("env/dev", "a: two") && s.holds("main", c.tip("main")) })
		if got := s.requests(); len(got) > 0 || s.ref(followBranch) != "" {
			t.Errorf("merge requests %v", got)
		}

		work := filepath.Join(s.dir, "work")
		s.run(work, "fetch", "-q", "origin")
		s.run(work, "checkout", "-q", "-B", "main", "origin/main")
		s.run(work, "revert", "--no-edit", "HEAD")
		s.push("main")
		undone := s.ref("main")
		s.until("the tip says that a person undid it", func() bool {
			return strings.HasPrefix(s.status(undone,
				"sluice/follow"), "fail")
		})
		s.until("dev is back", func() bool { return s.holds("env/dev", "a: one") })
		if s.ref("main") != undone {
			t.Errorf("the trunk moved on from the revert %s to %s", undone, s.ref("main"))
		}
		c.publish("main", "three")
		s.until("dev has the next one", func() bool { return s.holds("env/dev", "a: three") })
	})
}

// What prevents the service from following a repository is on the tip of the trunk until it is over.
func TestFollowTrouble(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := following(s, "{commit: true}")
		s.start()
		s.until("dev is hydrated", func() bool { return s.holds("env/dev", "a: one") })
		fails := func(why string) {
			t.Helper()
			s.until("the tip says "+why, func() bool {
				return strings.HasPrefix(s.status(s.ref("main"), "sluice/follow"), "fail") &&
					strings.Contains(s.described(s.ref("main"), "sluice/follow"), why)
			})
		}
		moved := c.bare + ".away"
		if err := os.Rename(c.bare, moved); err != nil {
			t.Fatal(err)
		}
		fails("components: it cannot be followed: ")
		if err := os.Rename(moved, c.bare); err != nil {
			t.Fatal(err)
		}
		s.until("it is over", func() bool { return s.status(s.ref("main"), "sluice/follow") == "success" })

		rule := filepath.Join(s.dir, "git", repo+".git", "hooks/update")
		if err := os.WriteFile(rule,
			[]byte("#!/bin/sh\n[ \"$1\" != refs/heads/main ] || { echo 'main is protected' >&2; exit 1; }\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
		tip := s.ref("main")
		c.release("two")
		fails("refuses the commit on main")
		if s.ref("main") != tip {
			t.Errorf("main moved")
		}
		if err := os.Remove(rule); err != nil {
			t.Fatal(err)
		}
		s.until("dev has it", func() bool { return s.holds("env/dev", "a: two") })
	})
}

// described returns the description of a commit's status.
func (s *story) described(sha, context string) string {
	if s.hub == nil {
		return s.lab.Descriptions(repo, sha)[context]
	}
	text := ""
	for _, one := range s.hub.Statuses(repo, sha) {
		if one.Context == context {
			text = one.Description
		}
	}
	return text
}
