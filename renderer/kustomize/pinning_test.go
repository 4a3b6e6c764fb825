package kustomize

import "testing"

// The refusal of a remote base names the command that pins its repository, and repeats nothing that a shell would
// interpret.
func TestPinCommand(t *testing.T) {
	t.Parallel()
	const general = "sluice deps add NAME URL"
	for ref, want := range map[string]string{
		"https://github.com/acme/components//base?ref=v1.4.0":                               "sluice deps add components https://github.com/acme/components --tags v1.4.0",
		"https://github.com/acme/Components/base?ref=release-1":                             "sluice deps add components https://github.com/acme/Components --branch release-1",
		"github.com/acme/components/base?timeout=90s&version=v1.4.0-rc.1":                   "sluice deps add components https://github.com/acme/components --tags v1.4.0-rc.1",
		"https://gitlab.example.com/platform/sub/base_charts.git//x?ref=main":               "sluice deps add base-charts https://gitlab.example.com/platform/sub/base_charts --branch main",
		"git::https://git.example.com/a/b.git/overlays/prod":                                "sluice deps add b https://git.example.com/a/b",
		"ssh://git@git.example.com/a/b.git//x?ref=0123456789abcdef0123456789abcdef01234567": "sluice deps add b ssh://git@git.example.com/a/b",
		"https://raw.githubusercontent.com/acme/components/main/crds.yaml":                  general,
		"https://example.com/$(reboot)/b//x":                                                general,
		"https://github.com/acme/components//base?ref=`reboot`":                             "sluice deps add components https://github.com/acme/components",
		"https://example.com/base.yaml":                                                     general,
		"https://ada:s3cret@github.com/acme/components//base?ref=v1":                        "sluice deps add components https://github.com/acme/components --tags v1",
		"https://ghp_token@github.com/acme/components/base":                                 "sluice deps add components https://github.com/acme/components",
		"https://github.com/acme/..//x":                                                     general,
		"http://example.com/a/b//x":                                                         general,
		"git@github.com:acme/components.git":                                                "sluice deps add components ssh://git@github.com/acme/components",
		"git@git.example.com:a/b.git//x?ref=v1.4.0":                                         "sluice deps add b ssh://git@git.example.com/a/b --tags v1.4.0",
		"git@github.com/acme/components//base?ref=main":                                     "sluice deps add components ssh://git@github.com/acme/components --branch main",
		"git@git.example.com:/srv/a/b.git":                                                  general,
		"git@git.example.com:b.git":                                                         general,
		"git@evil host:a/b.git":                                                             general,
		"git@git.example.com:a/$(reboot)//x":                                                general,
		"token@git.example.com:a/b.git":                                                     general,
	} {
		if got := pinCommand(ref); got != want {
			t.Errorf("%s: the result of pinCommand is %q, want %q", ref, got, want)
		}
	}
	if got := shown("git::https://ada:s3cret@github.com/acme/components"); got != `"git::https://github.com/acme/components"` {
		t.Errorf("shown as %s", got)
	}
}
