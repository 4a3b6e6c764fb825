package helm

import (
	"fmt"
	"strconv"
	"strings"
)

// callKind is what the analysis knows about a function of templates.
type callKind int

const (
	unknownCall  callKind = iota
	followedCall          // the analysis understands it in detail
	mutatorCall           // it changes a map
	scalarCall            // the result is no map and no list, or a new one with all its items; the arguments count as read
	selectorCall          // the result can be, or contain, a part of an argument; the arguments count as read
	volatileCall          // the result differs each time
)

func kindOfCall(name string) callKind {
	switch name {
	case "include", "tpl", "dict", "list", "tuple", "first", "get", "index", "hasKey", "dig":
		return followedCall
	case "set", "unset", "merge", "mustMerge", "mergeOverwrite", "mustMergeOverwrite":
		return mutatorCall
	case "abbrev", "abbrevboth", "add", "add1", "add1f", "addf", "adler32sum", "all", "any", "atoi", "b32dec", "b32enc", "b64dec",
		"b64enc", "base", "biggest", "buildCustomCert", "camelcase", "cat", "ceil", "clean", "contains", "decryptAES", "deepCopy",
		"deepEqual", "derivePassword", "dir", "div", "divf", "duration", "empty", "ext", "fail", "float64", "floor", "fromJson",
		"fromJsonArray", "fromToml", "fromYaml", "fromYamlArray", "getHostByName", "has", "hasPrefix", "hasSuffix", "hello", "indent",
		"initials", "int", "int64", "isAbs", "join", "kebabcase", "keys", "kindIs", "kindOf", "lookup", "lower", "max", "maxf", "min",
		"minf", "mod", "mul", "mulf", "mustDateModify", "mustDeepCopy", "mustFromJson", "mustHas", "mustRegexFind", "mustRegexFindAll",
		"mustRegexMatch", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral", "mustRegexSplit", "mustToDate", "mustToJson",
		"mustToPrettyJson", "mustToRawJson", "must_date_modify", "nindent", "nospace", "osBase", "osClean", "osDir", "osExt", "osIsAbs",
		"plural", "quote", "regexFind", "regexFindAll", "regexMatch", "regexQuoteMeta", "regexReplaceAll", "regexReplaceAllLiteral",
		"regexSplit", "repeat", "replace", "round", "semver", "semverCompare", "seq", "sha1sum", "sha256sum", "sha512sum", "snakecase",
		"sortAlpha", "split", "splitList", "splitn", "squote", "sub", "subf", "substr", "swapcase", "title", "toDate", "toDecimal",
		"toJson", "toPrettyJson", "toRawJson", "toString", "toStrings", "toToml", "toYaml", "toYamlPretty", "trim", "trimAll",
		"trimPrefix", "trimSuffix", "trimall", "trunc", "typeIs", "typeIsLike", "typeOf", "unixEpoch", "until", "untilStep", "untitle",
		"upper", "urlJoin", "urlParse", "wrap", "wrapWith", "eq", "ge", "gt", "html", "js", "le", "len", "lt", "ne", "not", "printf",
		"print", "println", "urlquery":
		return scalarCall
	case "append", "chunk", "coalesce", "compact", "concat", "default", "initial", "last", "mustAppend", "mustChunk", "mustCompact",
		"mustFirst", "mustInitial", "mustLast", "mustPrepend", "mustRest", "mustReverse", "mustSlice", "mustUniq", "mustWithout", "omit",
		"pick", "pluck", "prepend", "required", "rest", "reverse", "slice", "ternary", "uniq", "values", "without", "and", "or":
		return selectorCall
	}
	if volatile(name) {
		return volatileCall
	}
	return unknownCall
}

// call returns the result of a function. The file reads everything if a function is volatile or not known.
func (r *reader) call(name string, args []abstract) abstract {
	switch kindOfCall(name) {
	case followedCall:
		return r.follow(name, args)
	case mutatorCall:
		return r.mutate(name, args)
	case scalarCall:
		r.consume(args...)
		if text, ok := printed(name, args); ok {
			return abstract{known: text}
		}
		return abstract{}
	case selectorCall:
		r.consume(args...)
		return abstract{}
	case volatileCall: // the execution sees whether it is called
		r.consume(args...)
		return abstract{}
	}
	r.giveUp()
	return abstract{}
}

// maxPrinted limits the bytes of a text that the analysis computes. A text of which 40 variables each double the one before would not fit into memory.
const maxPrinted = 1 << 10

// printed returns the text of known strings: the names of included templates often are `print $.Template.BasePath "/file.yaml"`.
func printed(name string, args []abstract) (string, bool) {
	texts, size := make([]any, len(args)), 0
	for i, arg := range args {
		text, ok := arg.text()
		if size += len(text); !ok || size > maxPrinted {
			return "", false
		}
		texts[i] = text
	}
	switch {
	case name == "print":
		return fmt.Sprint(texts...), true
	case name == "printf" && len(texts) > 0:
		format := texts[0].(string)
		if strings.Contains(strings.ReplaceAll(format, "%s", ""), "%") { // a verb with a width makes a long text
			return "", false
		}
		return fmt.Sprintf(format, texts[1:]...), true
	}
	return "", false
}

func (r *reader) follow(name string, args []abstract) abstract {
	switch name {
	case "include":
		return r.include(args)
	case "tpl": // evaluates a template only when the text is one, which the rendering sees
		if len(args) == 2 {
			args = args[:1]
		}
		r.consume(args...)
		return abstract{}
	case "dict":
		return r.dict(args)
	case "list", "tuple":
		out := abstract{fields: map[string]abstract{}}
		for i, arg := range args {
			out.fields["#"+strconv.Itoa(i)] = arg
		}
		return out
	case "first":
		if len(args) == 1 {
			return r.item(args[0], 0)
		}
	case "get", "index":
		if len(args) > 1 {
			return r.index(args[0], args[1:])
		}
	case "hasKey":
		if len(args) == 2 {
			r.consume(r.index(args[0], args[1:]))
			return abstract{}
		}
	case "dig":
		if last := len(args) - 1; last >= 2 {
			v := r.index(args[last], args[:last-1])
			r.consume(v, args[last-1])
			return abstract{}
		}
	}
	r.consume(args...)
	return abstract{}
}

func (r *reader) include(args []abstract) abstract {
	if len(args) == 2 {
		if name, ok := args[0].text(); ok {
			r.template(name, args[1])
			return abstract{}
		}
	}
	r.giveUp()
	return abstract{}
}

func (r *reader) dict(args []abstract) abstract {
	out := abstract{fields: map[string]abstract{}}
	for i := 0; i < len(args); i += 2 {
		key, ok := args[i].text()
		if !ok {
			r.consume(args...)
			return abstract{}
		}
		item := abstract{known: ""}
		if i+1 < len(args) {
			item = args[i+1]
		}
		out.fields[key] = item
	}
	return out
}

// index returns the item of a map or list at nested keys.
func (r *reader) index(v abstract, keys []abstract) abstract {
	for _, key := range keys {
		name, isText := key.text()
		i, isNumber := key.known.(int)
		switch {
		case isText:
			v = r.field(v, name)
		case isNumber && key.constant():
			v = r.item(v, i)
		default:
			r.consume(v, key)
			v = abstract{}
		}
	}
	return v
}

// mutate analyses a function that changes its first argument. What it stores counts as read, so a later read of the changed map reads
// nothing new.
func (r *reader) mutate(name string, args []abstract) abstract {
	if len(args) > 0 && (name == "set" || name == "unset") {
		r.consume(args[1:]...)
		return args[0]
	}
	r.consume(args...)
	return abstract{}
}
