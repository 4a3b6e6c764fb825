package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// allowedBuiltins are the functions that rules may call. Their results depend only on their operands: no network,
// file, environment, clock (time.now_ns is the time of the check) or randomness. A function that OPA adds is refused
// until it is listed here.
func allowedBuiltins() map[string]bool {
	const list = `
		assign eq equal neq gt gte lt lte
		count max min product sort sum
		array.concat array.flatten array.reverse array.slice
		bits.and bits.lsh bits.negate bits.or bits.rsh bits.xor
		to_number crypto.md5 crypto.sha1 crypto.sha256
		base64.decode base64.encode base64.is_valid base64url.decode base64url.encode base64url.encode_no_pad hex.decode hex.encode
		json.is_valid json.marshal json.unmarshal urlquery.decode urlquery.decode_object urlquery.encode urlquery.encode_object
		yaml.is_valid yaml.marshal yaml.unmarshal
		glob.match glob.quote_meta graph.reachable graph.reachable_paths walk
		internal.member_2 internal.member_3 internal.print internal.template_string internal.test_case print
		net.cidr_contains net.cidr_contains_matches net.cidr_intersects net.cidr_is_valid net.cidr_merge
		abs ceil div floor minus mul numbers.range numbers.range_step plus rem round
		json.filter json.remove object.filter object.get object.keys object.remove object.subset object.union object.union_n
		regex.find_all_string_submatch_n regex.find_n regex.is_valid regex.match regex.replace regex.split
		rego.metadata.chain rego.metadata.rule semver.compare semver.is_valid and intersection or union
		concat contains endswith format_int indexof indexof_n lower replace split sprintf startswith
		strings.any_prefix_match strings.any_suffix_match strings.count strings.replace_n strings.reverse strings.split_n
		substring trim trim_left trim_prefix trim_right trim_space trim_suffix upper
		time.add_date time.clock time.date time.diff time.format time.now_ns time.parse_duration_ns time.parse_ns
		time.parse_rfc3339_ns time.weekday
		is_array is_boolean is_null is_number is_object is_set is_string type_name units.parse units.parse_bytes
		uri.is_valid uri.parse uuid.parse`
	out := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		out[name] = true
	}
	return out
}

// capabilities are OPA's, with only the allowed functions and without network for schemas.
func capabilities() *ast.Capabilities {
	allowed := allowedBuiltins()
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool { return !allowed[b.Name] })
	c.AllowNet = []string{}
	return c
}

// refusedCalls finds calls of OPA functions that Sluice refuses. The compiler would report them as undefined.
func refusedCalls(m *ast.Module) Problems {
	allowed := allowedBuiltins()
	var out Problems
	refuse := func(operator ast.Ref, at *ast.Location) {
		name := operator.String()
		if _, known := ast.BuiltinMap[name]; !known || allowed[name] {
			return
		}
		p := Problem{File: Dir, Message: fmt.Sprintf("%s is not allowed in policies: rules may read the object and data.sluice only, and use no network, files, clock or randomness", name)}
		if at != nil {
			p.File, p.Line, p.Column = at.File, at.Row, at.Col
		}
		out = append(out, p)
	}
	ast.WalkNodes(m, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Expr:
			if x.IsCall() {
				refuse(x.Operator(), x.Location)
			}
		case *ast.Term:
			if call, ok := x.Value.(ast.Call); ok {
				if operator, ok := call[0].Value.(ast.Ref); ok {
					refuse(operator, x.Location)
				}
			}
		}
		return false
	})
	return slices.CompactFunc(out, func(a, b Problem) bool { return a == b })
}
