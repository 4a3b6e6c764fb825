package ci_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/ci"
)

const (
	head = "1111111111111111111111111111111111111111"
	base = "2222222222222222222222222222222222222222"
)

func TestDetect(t *testing.T) {
	actions := func(event string) map[string]string {
		return map[string]string{
			"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": "event.json",
			"GITHUB_REPOSITORY": "acme/fleet",
			"GITHUB_REF":        "refs/heads/main", "GITHUB_SHA": head, "GITHUB_RUN_ID": "5",
		}
	}
	gitlab := func(more ...string) map[string]string {
		out := map[string]string{
			"GITLAB_CI": "true", "CI_PROJECT_PATH": "acme/ops/fleet", "CI_COMMIT_SHA": head,
			"CI_API_V4_URL": "https://git.example.com/api/v4",
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	pull := func(repo string) string {
		return `{"pull_request":{"number":7,"draft":true,"head":{"sha":"` + head + `","repo":` + repo +
			`},"base":{"sha":"` + base + `","ref":"main"}}}`
	}
	for name, tc := range map[string]struct {
		env   map[string]string
		event string
		want  ci.Context
		err   string
	}{
		"pull request": {
			actions("pull_request"), pull(`{"full_name":"acme/fleet"}`),
			ci.Context{Kind: ci.Review, MergeRequest: 7, Head: head, Base: base, Target: "main", Draft: true},
			"",
		},
		"fork": {
			actions("pull_request"), pull(`{"full_name":"eve/fleet"}`),
			ci.Context{
				Kind: ci.Review, MergeRequest: 7, Head: head, Base: base, Target: "main", Draft: true,
				Fork: true,
			},
			"",
		},
		"deleted fork": {
			actions("pull_request_target"), pull(`null`),
			ci.Context{
				Kind: ci.Review, MergeRequest: 7, Head: head, Base: base, Target: "main", Draft: true,
				Fork: true,
			},
			"",
		},
		"push": {
			actions("push"), `{"ref":"refs/heads/main","after":"` + head + `"}`,
			ci.Context{Kind: ci.Trunk, Head: head, Target: "main"},
			"",
		},
		"tag": {
			actions("push"), `{"ref":"refs/tags/v1","after":"` + head + `"}`,
			ci.Context{Kind: ci.Nothing},
			"",
		},
		"branch deleted": {
			actions("push"), `{"ref":"refs/heads/x","after":"` + head + `","deleted":true}`,
			ci.Context{Kind: ci.Nothing},
			"",
		},
		"merge group": {actions("merge_group"), `{"merge_group":{"head_sha":"` + head + `","base_sha":"` + base +
			`","base_ref":"refs/heads/main"}}`, ci.Context{Kind: ci.Queue, Head: head, Base: base, Target: "main"}, ""},
		"follow up": {
			actions("workflow_run"), `{"workflow_run":{"head_sha":"` + head +
				`","event":"pull_request","head_repository":{"full_name":"eve/fleet"}}}`,
			ci.Context{Kind: ci.FollowUp, Head: head, Fork: true},
			"",
		},
		"other event": {actions("issues"), `{}`, ci.Context{Kind: ci.Nothing}, ""},
		"hostile commit": {
			actions("pull_request"), strings.Replace(pull(`null`), head, "--upload-pack=x", 1),
			ci.Context{},
			"GITHUB_EVENT_PATH: ",
		},
		"no JSON": {actions("push"), `{`, ci.Context{}, "event.json"},
		"merge request": {gitlab("CI_MERGE_REQUEST_IID", "12", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main",
			"CI_MERGE_REQUEST_DIFF_BASE_SHA", base), "", ci.Context{
			Kind: ci.Review, MergeRequest: 12, Head: head,
			Base: base, Target: "main",
		}, ""},
		"merged results": {
			gitlab("CI_MERGE_REQUEST_IID", "12", "CI_COMMIT_SHA", base,
				"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", head), "",
			ci.Context{Kind: ci.Review, MergeRequest: 12, Head: head},
			"",
		},
		"gitlab fork": {
			gitlab("CI_MERGE_REQUEST_IID", "12", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", "eve/fleet"),
			"",
			ci.Context{Kind: ci.Review, MergeRequest: 12, Head: head, Fork: true},
			"",
		},
		"merge train": {
			gitlab("CI_MERGE_REQUEST_IID", "12", "CI_MERGE_REQUEST_EVENT_TYPE", "merge_train"), "",
			ci.Context{Kind: ci.Queue, MergeRequest: 12, Head: head},
			"",
		},
		"gitlab push": {
			gitlab("CI_COMMIT_BRANCH", "main"), "",
			ci.Context{Kind: ci.Trunk, Head: head, Target: "main"},
			"",
		},
		"gitlab tag": {gitlab("CI_COMMIT_TAG", "v1"), "", ci.Context{Kind: ci.Nothing}, ""},
		"hostile path": {
			gitlab("CI_COMMIT_BRANCH", "main", "CI_PROJECT_PATH", "a/b?x=\n"), "",
			ci.Context{},
			"CI_PROJECT_PATH: ",
		},
		"laptop":    {map[string]string{}, "", ci.Context{}, ci.ErrNoCI.Error()},
		"no number": {gitlab("CI_MERGE_REQUEST_IID", "0"), "", ci.Context{}, "CI_MERGE_REQUEST_IID: "},
		"no payload": {
			actions("pull_request"), `{}`,
			ci.Context{},
			`GITHUB_EVENT_PATH: the file has no payload of the event "pull_request"`,
		},
		"gitlab draft": {
			gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TITLE", "[draft] More replicas"),
			"",
			ci.Context{Kind: ci.Review, MergeRequest: 3, Head: head, Draft: true},
			"",
		},
		"gitlab ready": {gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TITLE", "Drafts: More",
			"CI_MERGE_REQUEST_DRAFT", "false"), "", ci.Context{Kind: ci.Review, MergeRequest: 3, Head: head}, ""},
		"gitlab says draft": {gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TITLE", "More",
			"CI_MERGE_REQUEST_DRAFT", "true"), "", ci.Context{
			Kind: ci.Review, MergeRequest: 3, Head: head,
			Draft: true,
		}, ""},
		"zeros are no base": {gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TARGET_BRANCH_SHA",
			strings.Repeat("0", 40)), "", ci.Context{Kind: ci.Review, MergeRequest: 3, Head: head}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ci.Detect(func(k string) string { return tc.env[k] }, func(name string) ([]byte, error) {
				if name != "event.json" {
					return nil, os.ErrNotExist
				}
				return []byte(tc.event), nil
			})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			have := ci.Context{
				Kind: got.Kind, MergeRequest: got.MergeRequest, Head: got.Head, Base: got.Base,
				Target: got.Target, Fork: got.Fork, Draft: got.Draft,
			}
			if got.Kind == ci.Nothing {
				have = ci.Context{Kind: ci.Nothing}
				if got.Reason == "" {
					t.Error("no reason")
				}
			}
			if have != tc.want {
				t.Errorf("got %+v\nwant %+v", have, tc.want)
			}
		})
	}
	// A container that gets the name of the event and not its file must not look like an event that Sluice ignores.
	without := func(k string) string {
		return map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request"}[k]
	}
	if got, err := ci.Detect(without, nil); err == nil || !strings.Contains(err.Error(), "GITHUB_EVENT_PATH") {
		t.Errorf("without the file of the event: %+v, %v", got, err)
	}
	if _, err := ci.Detect(func(string) string { return "" }, nil); !errors.Is(err, ci.ErrNoCI) {
		t.Errorf("the error is %v", err)
	}
}
