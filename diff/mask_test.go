package diff_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const (
	password = "correct-horse-battery"
	random   = "k9Xw2mQz7RtY4vLp8NcB3sHd"
)

func encode(text string, times int) string {
	for range times {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return text
}

// maskForms are the forms in which a secret occurs. Each is a list of objects in YAML, in which %s is the secret, %d
// the number 73519264, %b its base64, %c base64 of base64, and %r a random value.
func maskForms() map[string]string {
	const config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, env: [%ENV]}]}\n"
	env := func(text string) string { return strings.ReplaceAll(pod, "%ENV", text) }
	return map[string]string{
		"data":                              secret + "data: {x: %b}",
		"data that is not base64":           secret + "data: {x: '%s'}",
		"data with line breaks":             secret + "data: {x: \"%b\\n\"}",
		"stringData":                        secret + "stringData: {x: %s}",
		"Data":                              secret + "Data: {x: %b}",
		"StringData":                        secret + "StringData: {x: %s}",
		"STRINGDATA, used elsewhere":        secret + "STRINGDATA: {x: %s}\n" + config + "data: {y: 'is %s'}",
		"kind in lower case":                strings.Replace(secret, "Secret", "secret", 1) + "data: {x: %b}",
		"version in upper case":             strings.Replace(secret, "v1", "V1", 1) + "data: {x: %b}",
		"nested in data":                    secret + "data: {x: {y: [%s]}}",
		"nested in data, used elsewhere":    secret + "data: {x: {y: [%s]}}\n" + config + "data: {y: '%s'}",
		"data that is no mapping":           secret + "data: [%s]",
		"last applied":                      "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{\"x\":\"%s\"}'}}",
		"used elsewhere":                    secret + "stringData: {x: %s}\n" + config + "data: {y: 'is %s', z: %s}",
		"used elsewhere, encoded":           secret + "stringData: {x: %s}\n" + config + "binaryData: {y: %b}",
		"used elsewhere, encoded twice":     secret + "stringData: {x: %s}\n" + config + "data: {y: %c}",
		"used elsewhere, in encoded text":   secret + "stringData: {x: %s}\n" + config + "data: {y: " + encode("login "+password+"!", 1) + "}",
		"used elsewhere, in text, twice":    secret + "stringData: {x: %s}\n" + config + "data: {y: " + encode("login "+password+"!", 2) + "}",
		"encoded twice":                     secret + "data: {x: %c}",
		"encoded twice, used elsewhere":     secret + "data: {x: %c}\n" + config + "data: {y: %s, z: 'is %b'}",
		"encoded thrice, used elsewhere":    secret + "data: {x: " + encode(password, 3) + "}\n" + config + "data: {y: '%s'}",
		"encoded for addresses":             secret + "stringData: {x: 'pass?>word~~correct-horse-battery'}\n" + config + "data: {y: " + base64.RawURLEncoding.EncodeToString([]byte("pass?>word~~correct-horse-battery")) + "}",
		"a number":                          secret + "stringData: {x: %d}\n" + config + "data: {y: %d, z: '%d', a: 'is %d'}\n",
		"a number in data":                  secret + "data: {x: %d}\n",
		"a number in another kind":          secret + "stringData: {x: '%d'}\n---\napiVersion: a.b/v1\nkind: A\nmetadata: {name: a}\nspec: {pin: %d}",
		"a document":                        secret + "stringData: {config.json: '{\"auth\": {\"password\": \"%s\"}}'}\n" + config + "data: {y: '%s'}",
		"a registry":                        secret + "data: {.dockerconfigjson: " + encode(`{"auths":{"r.io":{"username":"u","password":"`+password+`"}}}`, 1) + "}\n" + config + "data: {y: '%s'}",
		"a file of variables":               secret + "stringData: {.env: \"USER=x\\nexport DB_PASSWORD='%s'\\n\"}\n" + config + "data: {y: '%s'}",
		"an address":                        secret + "stringData: {url: 'postgres://u:%s@db/x'}\n" + config + "data: {y: '%s'}",
		"an address without a user":         config + "data: {y: 'redis://:%s@db/0'}",
		"SecretList":                        "apiVersion: v1\nkind: SecretList\nmetadata: {name: l}\nitems: [{metadata: {name: s}, data: {x: %b}, stringData: {y: %s}}]",
		"SecretList, used elsewhere":        "apiVersion: v1\nkind: SecretList\nmetadata: {name: l}\nitems: [{metadata: {name: s}, data: {x: %b}}]\n" + config + "data: {y: '%s'}",
		"List":                              "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {x: %b}}]\n" + config + "data: {y: '%s'}",
		"List of a SecretList":              "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: SecretList, metadata: {name: l}, items: [{metadata: {name: s}, data: {x: %b}}]}]",
		"inside another object":             "apiVersion: a.b/v1\nkind: Template\nmetadata: {name: t}\nspec: {objects: [{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {x: %s}, data: {y: %b}}]}",
		"inside another object, elsewhere":  "apiVersion: a.b/v1\nkind: Template\nmetadata: {name: t}\nspec: {objects: [{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {x: %s}}], note: 'is %s'}",
		"ENC without SOPS":                  secret + "stringData: {x: 'ENC[%s]'}",
		"ENC that is no form of SOPS":       secret + "sops: {mac: x}\nstringData: {x: 'ENC[%s]'}",
		"ENC with parts that do not decode": secret + "sops: {mac: x}\nstringData: {x: 'ENC[AES256_GCM,data:%s,iv:x,tag:y,type:str]'}",
		"ENC with text as parts":            secret + "sops: {mac: x}\nstringData: {x: 'ENC[AES256_GCM,data:%b,iv:" + encode(strings.Repeat("\xfe", 32), 1) + ",tag:" + encode(strings.Repeat("\xfe", 16), 1) + ",type:str]'}",
		"ENC, used elsewhere":               secret + "sops: {mac: x}\nstringData: {x: 'ENC[%s]'}\n" + config + "data: {y: 'ENC[%s]'}",
		"variable by name":                  env("{name: DB_PASSWORD, value: %s}, {name: apiToken, value: %s}, {name: STRIPE_API_KEY, value: %s}"),
		"variable by name, a number":        env("{name: PIN, value: %d}, {name: ADMIN_PASSWORD, value: '%d'}"),
		"variable by name, with a slash":    env("{name: DB_PASS, value: /%r}"),
		"variable by randomness":            env("{name: MYSTERY, value: %r}, {name: OTHER, value: 9f86d081884c7d659a2feaa0c55ad015}"),
		"variable of a ConfigMap":           config + "data: {DB_PASSWORD: %s, token: %s}",
		"parameter":                         "apiVersion: a.b/v1\nkind: A\nmetadata: {name: a}\nspec: {parameters: [{name: adminPassword, value: %s, forceString: true}]}",
	}
}

func filled(form string) string {
	return strings.NewReplacer("%s", password, "%d", "73519264", "%b", encode(password, 1), "%c", encode(password, 2),
		"%r", random).Replace(form)
}

// raw decodes objects without taking lists apart, as a file of a branch could hold them.
func raw(t *testing.T, text string) []manifest.Object {
	t.Helper()
	var out []manifest.Object
	for one := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "---\n") {
		v, err := manifest.Value([]byte(one), manifest.DefaultBudget())
		o, ok := v.(map[string]any)
		if err != nil || !ok {
			t.Fatalf("decode %q: %v", one, err)
		}
		out = append(out, o)
	}
	return out
}

func masked(t *testing.T, text string) string {
	t.Helper()
	m, list := diff.NewMasker([]byte("key")), raw(t, text)
	for _, o := range list {
		m.Learn(o)
	}
	out := ""
	for _, o := range list {
		out += fmt.Sprint(m.Mask(o)) + "\n"
	}
	return out
}

// No form of a secret is shown, a changed secret is visible in each, and masking does not depend on the order of keys.
func TestMaskForms(t *testing.T) {
	t.Parallel()
	leaks := []string{
		password, "73519264", encode(password, 1)[:24], encode(password, 2)[:28], encode(password, 3)[:28], random,
		"9f86d081884c7d659a2feaa0c55ad015", "Y29ycmVjdC1ob3Jz", encode("login "+password+"!", 1), "pass?>word",
		base64.RawURLEncoding.EncodeToString([]byte("pass?>word~~correct-horse-battery")),
	}
	for name, form := range maskForms() {
		out := masked(t, filled(form))
		for _, leak := range leaks {
			if strings.Contains(out, leak) {
				t.Errorf("%s: %q is shown in\n%s", name, leak, out)
			}
		}
		if !strings.Contains(out, "‹masked ") {
			t.Errorf("%s: nothing is masked in\n%s", name, out)
		}
		for range 5 {
			if again := masked(t, filled(form)); again != out {
				t.Fatalf("%s: masked again, the result differs:\n%s\n%s", name, out, again)
			}
		}
	}
}

var fingerprints = regexp.MustCompile(`‹masked [0-9a-f]+ \d+ bytes›`)

// A value has one fingerprint wherever it is.
func TestMaskFingerprints(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{
		"in a Secret, encoded or not": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {x: %b}\nstringData: {y: %s}\nStringData: {y: %s}",
		"in a variable, with the Secret": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {x: %b}\n" +
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: DB_PASSWORD, value: %s}, {name: X, value: %b}], args: ['%s', '%c']}",
		"in a variable, without the Secret": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: DB_PASSWORD, value: %s}, {name: API_TOKEN, value: %s}]}",
		"a number": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {x: %d, y: '%d'}\n" +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: %d, y: '%d'}",
	} {
		out := masked(t, filled(form))
		found := fingerprints.FindAllString(out, -1)
		if len(found) < 2 {
			t.Errorf("%s: %d fingerprints in\n%s", name, len(found), out)
		}
		for _, one := range found {
			if one != found[0] {
				t.Errorf("%s: equal values have the fingerprints %s and %s in\n%s", name, found[0], one, out)
			}
		}
	}
}

// What is no secret stays readable.
func TestMaskKeeps(t *testing.T) {
	t.Parallel()
	const encrypted = "ENC[AES256_GCM,data:CwE4O1s=,iv:2k/QlLM8WWLAJzr2TVfGRPg7GTQNpHmQlSnLDJlZq0E=,tag:pcNpu0jW1Pv9/xJpnPOX0Q==,type:str]"
	for name, text := range map[string]string{
		encrypted:                                  "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nsops: {mac: x}\ndata: {x: '%'}",
		"$(DB_PASSWORD)":                           "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: TOKEN, value: '%'}]}",
		"/var/run/secrets/token":                   "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: TOKEN, value: '%'}]}",
		"https://login.example.com/token":          "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: TOKEN, value: '%'}]}",
		"registry-credentials-of-the-team-1":       "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: SECRET_NAME, value: '%'}]}",
		"org.example.LongClassName2Factory":        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: CLASS, value: '%'}]}",
		"LongCamelCaseNameOfAFactory2":             "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: CLASS, value: '%'}]}",
		"3f2504e0-4f89-11d3-9a0c-0305e82c3301":     "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: TENANT, value: '%'}]}",
		"9f86d081884c7d659a2feaa0c55ad0159f86d081": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: GIT_COMMIT, value: '%'}]}",
		"registry.example.com/team/api@sha256:9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: '%'}], env: [{name: IMAGE, value: '%'}]}",
		"wildcard-of-the-shop":                     "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: TLS_SECRET, value: '%'}]}",
		"9f86d081884c7d659a2feaa0c55ad0159f86d082": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {env: [{name: GIT_COMMIT_ID, value: '%'}]}",
		"true": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {check-token: '%'}",
	} {
		if out := masked(t, strings.ReplaceAll(text, "%", name)); !strings.Contains(out, name) || strings.Contains(out, "‹masked") {
			t.Errorf("%s is masked: %s", name, out)
		}
	}
	for _, empty := range []string{"data:", "stringData: {x: }"} {
		if out := masked(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"+empty); strings.Contains(out, "‹masked") {
			t.Errorf("nothing is masked: %s", out)
		}
	}
}
