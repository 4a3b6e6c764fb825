package policy_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-gitops/sluice/policy"
)

// Functions that read more than their operands are problems with their positions, including json.match_schema with a
// file.
func TestRegoRefusesFunctions(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type": "string", "const": "canary"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"json.match_schema": `[ok, _] := json.match_schema(input.kind, {"$ref": "file://` + secret +
			`"}); msg := sprintf("%v", [ok])`,
		"json.verify_schema": `[ok, _] := json.verify_schema({"$ref": "file://` + secret +
			`"}); msg := sprintf("%v", [ok])`,
		"http.send":               `msg := http.send({"method": "get", "url": "http://169.254.169.254"}).raw_body`,
		"opa.runtime":             `msg := opa.runtime().env.HOME`,
		"net.lookup_ip_addr":      `msg := concat("", net.lookup_ip_addr("canary.example.com"))`,
		"rand.intn":               `msg := format_int(rand.intn("x", 5), 10)`,
		"uuid.rfc4122":            `msg := uuid.rfc4122("x")`,
		"trace":                   `trace("x"); msg := "x"`,
		"strings.render_template": `msg := strings.render_template("{{.x}}", {"x": 1})`,
		"net.cidr_expand":         `msg := concat("", net.cidr_expand("10.0.0.0/8"))`,
		"crypto.x509.parse_and_verify_certificates": `[_, _] := crypto.x509.parse_and_verify_certificates("x"); msg := "x"`,
		"providers.aws.sign_req":                    `msg := providers.aws.sign_req({}, {}, 1).url`,
		"io.jwt.decode_verify":                      `[_, _, _] := io.jwt.decode_verify("x", {}); msg := "x"`,
	} {
		_, err := policy.Load(t.Context(),
			tree(map[string]string{"policy/x.rego": "package main\n\ndeny contains msg if {\n\t" + body + "\n}\n"}),
			policy.Options{Now: day()})
		var problems policy.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: accepted (%v)", name, err)
			continue
		}
		if p := problems[0]; p.File != "policy/x.rego" || p.Line != 4 ||
			!strings.Contains(p.Message, name+" is not allowed") {
			t.Errorf("%s: the problem is %+v", name, p)
		}
	}
}

// A function of OPA is allowed only if it is listed, and OPA has every listed function.
func TestRegoAllowsByName(t *testing.T) {
	for _, name := range policy.AllowedBuiltins() {
		if _, ok := ast.BuiltinMap[name]; !ok {
			t.Errorf("OPA has no function %s", name)
		}
	}
}

// Calls and rules that would need gigabytes or never end are errors of the rule: calls because a bound refuses them
// before they begin, loops because the time of the rule is over.
func TestRegoIsBounded(t *testing.T) {
	doubling := func(step string) string {
		var b strings.Builder
		b.WriteString("x0 := \"aaaaaaaaaaaaaaaa\"\n")
		for i := range 40 {
			b.WriteString(strings.NewReplacer("NEW", "x"+string(rune('A'+i/10))+string(rune('0'+i%10)), "OLD",
				map[bool]string{true: "x0", false: "x" + string(rune('A'+(i-1+10)/10-1)) +
					string(rune('0'+(i+9)%10))}[i == 0]).Replace(step) + "\n")
		}
		return b.String() + "msg := sprintf(\"%d\", [count(xD9)])"
	}
	doubled := func(n int) string { // t is a text of 2^n × 16 bytes
		out := "t0 := \"aaaaaaaaaaaaaaaa\"\n"
		for i := range n {
			out += fmt.Sprintf("t%d := concat(\"\", [t%d, t%d])\n", i+1, i, i)
		}
		return out + fmt.Sprintf("t := t%d\n", n)
	}
	for name, body := range map[string]string{
		"sprintf width":     `msg := sprintf("%1000000000d", [1])`,
		"sprintf star":      `msg := sprintf("%*d", [1000000000, 1])`,
		"sprintf precision": `msg := sprintf("%.1000000000f", [1.5])`,
		"numbers.range":     `msg := sprintf("%d", [count(numbers.range(1, 10000000000))])`,
		"range of big":      `msg := sprintf("%d", [count(numbers.range(1, 100000000000000000000000000))])`,
		"replace doubling":  doubling(`NEW := replace(OLD, "a", "aa")`),
		"concat doubling":   doubling(`NEW := concat("", [OLD, OLD])`),
		"sprintf doubling":  doubling(`NEW := sprintf("%s%s", [OLD, OLD])`),
		"hex doubling":      doubling(`NEW := hex.encode(OLD)`),
		"regex doubling":    doubling(`NEW := regex.replace(OLD, ".", "aa")`),
		"array doubling": strings.Replace(doubling(`NEW := array.concat(OLD, OLD)`),
			`"aaaaaaaaaaaaaaaa"`, `[1, 2]`, 1),
		"shift":             `msg := sprintf("%d", [bits.lsh(1, 10000000000)])`,
		"paths of a graph":  `g := {sprintf("%s%d", [side, i]): [sprintf("a%d", [i + 1]), sprintf("b%d", [i + 1])] | some i in numbers.range(0, 40); some side in ["a", "b"]}; msg := sprintf("%d", [count(graph.reachable_paths(g, {"a0"}))])`,
		"glob alternatives": `p := concat("", [x | some i in numbers.range(1, 12); x := sprintf("{*a,*b,a*}%s", [substring("", i, 0)])]); t := concat("", [x | some i in numbers.range(1, 200); x := sprintf("ab%s", [substring("", i, 0)])]); glob.match(p, ["."], sprintf("%sc", [t])); msg := "x"`,
		"pairs of networks": `xs := [sprintf("10.0.%d.%d/32", [i, k]) | some i in numbers.range(0, 50); some k in numbers.range(0, 50)]; msg := sprintf("%d", [count(net.cidr_contains_matches(xs, xs))])`,
		"regular expression over a long text": doubled(17) +
			`regex.match("(x*y*z*)*(x+x+)+y[^b]{200}$", t); msg := "x"`,
		"regular expression with repetitions": `p := concat("", ["(", concat("", ["(a?){30}" | some i in numbers.range(1, 200)]), "){30}"]); regex.match(p, "aaaa"); msg := "x"`,
		"regular expression of megabytes":     doubled(17) + `regex.is_valid(t); msg := "x"`,
		"found by a regular expression": doubled(17) +
			`msg := sprintf("%d", [count(regex.find_n("(a?a?a?a?){100}b", t, -1))])`,
		"replaced by a regular expression": doubled(17) + `msg := regex.replace(t, "(a?a?a?a?){100}b", "")`,
		"submatches of a regular expression": doubled(17) +
			`msg := sprintf("%d", [count(regex.find_all_string_submatch_n("(a?a?a?a?){100}b", t, -1))])`,
		"split by a regular expression": doubled(12) +
			`msg := sprintf("%d", [count(regex.split("((a?){100}){9}b", t))])`,
		"nested loops": `xs := numbers.range(1, 20000); some a in xs; some b in xs; some c in xs; a * b * c == 0; msg := "x"`,
	} {
		loops, limit := name == "nested loops", 5*time.Minute // the bounds refuse within seconds
		if loops {
			limit = 300 * time.Millisecond
		}
		e, err := policy.Load(t.Context(),
			tree(map[string]string{"policy/x.rego": "package main\n\ndeny contains msg if {\n" + body + "\n}\n"}),
			policy.Options{Now: day(), RuleTimeout: limit})
		if err != nil {
			t.Errorf("%s: the error is %v\nthe body is\n%s", name, err, body)
			continue
		}
		r := check(t, e, subject(t, "prod", deployment))
		if len(r.Findings) != 1 || r.Findings[0].Rule != policy.RulePolicyError ||
			strings.Contains(r.Findings[0].Message, "took more than") != loops {
			t.Errorf("%s: the findings are %+v", name, r.Findings)
		}
	}
}

// After several timeouts, a check stops evaluating the rules, and a note says so.
func TestRegoTimeoutsEnd(t *testing.T) {
	e, err := policy.Load(t.Context(),
		tree(map[string]string{"policy/x.rego": "package main\n\ndeny contains msg if {\n\txs := numbers.range(1, 20000)\n\tsome a in xs\n\tsome b in xs\n\tsome c in xs\n\ta * b * c == 0\n\tmsg := \"x\"\n}\n"}),
		policy.Options{Now: day(), RuleTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var objects []string
	for i := range 10 {
		objects = append(objects, strings.Replace(deployment, "name: web,", "name: web"+string(rune('0'+i))+",", 1))
	}
	r := check(t, e, subject(t, "prod", objects...))
	if len(r.Findings) != 3 || !strings.Contains(r.Findings[0].Message, "took more than 50ms") {
		t.Errorf("the findings are %+v", r.Findings)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"),
		"were not evaluated, because they reached the time limit on 3 objects") {
		t.Errorf("notes: %q", r.Notes)
	}
}

// The limits of functions accept ordinary rules.
func TestRegoBoundsLeaveRoom(t *testing.T) {
	for name, body := range map[string]string{
		"paths":    `count(graph.reachable_paths({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["a"]}, {"a"})) == 2`,
		"glob":     `glob.match("*.{dev,prod}.{example,test}.*", ["."], "web.prod.example.com")`,
		"regexps":  `regex.match("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$", "web.prod.example.com")`,
		"stars":    `glob.match("registry.example.com/{team-*,shared}/**", ["/"], "registry.example.com/team-a/web/api")`,
		"networks": `count(net.cidr_contains_matches(["10.0.0.0/8"], ["10.1.0.0/16", "10.2.0.0/16"])) == 2`,
	} {
		e, err := policy.Load(t.Context(),
			tree(map[string]string{"policy/x.rego": "package main\n\ndeny contains \"x\" if {\n" + body + "\n}\n"}),
			policy.Options{Now: day()})
		if err != nil {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		if r := check(t, e, subject(t, "prod", deployment)); len(r.Findings) != 1 || r.Findings[0].Rule != "main.deny" {
			t.Errorf("%s: the findings are %+v", name, r.Findings)
		}
	}
}
