# Reads what decides about a model's memory, and changes nothing. Sent on stdin, after lines that set TOKEN, MODEL
# (a folder or a GGUF file) and WORKDIR. POSIX sh; sections as in the probe.
#
# Of a GGUF file it sends a piece of the head, then waits for a word on stdin: "more" for the next piece, anything else
# when the head is complete. So no weights are sent but the end of the last piece.

LC_ALL=C
export LC_ALL
BLOCK=65536
MOST_BLOCKS=1024 # 64 MiB: the longest head, and the longest index
JSON_BLOCKS=32   # 2 MiB

begin() { printf '\n@relaunch %s section %s\n' "$TOKEN" "$1"; }
done_with() { printf '\n@relaunch %s status %s\n' "$TOKEN" "$1"; }

# Status 3: it is not there. 4: it may not be read.
may_read() {
  [ -e "$1" ] || return 3
  [ -r "$1" ] || return 4
}

tell_file() {
  begin "$1"
  may_read "$MODEL/$1" && dd if="$MODEL/$1" bs=$BLOCK count=$JSON_BLOCKS 2>/dev/null
  done_with $?
}

# The index names each tensor and its file, in megabytes of text: only what counts is sent.
tell_index() {
  FILE=$MODEL/model.safetensors.index.json
  begin index
  may_read "$FILE"
  STATUS=$?
  if [ $STATUS = 0 ]; then
    dd if="$FILE" bs=$BLOCK count=$MOST_BLOCKS 2>/dev/null | tr ',{}' '\n\n\n' | awk -F '"' '
      $2 == "total_size" && $3 ~ /[0-9]/ { total = $3; gsub(/[^0-9.e+]/, "", total) }
      NF == 5 && $4 ~ /\.(safetensors|bin)$/ {
        tensors++
        if ($2 ~ /[kv]_(scale|proj\.output_scale|proj\.[kv]_scale)$/) scales++
        if (!($4 in seen)) { seen[$4] = 1; print "file " $4 }
      }
      END { if (total != "") print "total " total; print "tensors " tensors + 0; print "scales " scales + 0 }'
    STATUS=$?
  fi
  done_with $STATUS
}

tell_sizes() {
  begin sizes
  ls -lnL "$1" 2>/dev/null
  done_with 0
}

# One part of a GGUF model: sections head.PART.0, head.PART.1, ... for as long as the answer is "more".
tell_head() {
  NUMBER=0 AT=0 COUNT=4
  while [ $AT -lt $MOST_BLOCKS ]; do
    begin "head.$2.$NUMBER"
    dd if="$1" bs=$BLOCK skip=$AT count=$COUNT 2>/dev/null
    done_with $?
    read -r ANSWER || exit 0
    [ "$ANSWER" = more ] || return 0
    AT=$((AT + COUNT)) NUMBER=$((NUMBER + 1))
    [ $COUNT -ge 64 ] || COUNT=$((COUNT * 2))
  done
}

# Large models come in files NAME-00001-of-00003.gguf.
tell_parts() {
  case $MODEL in
    *-00001-of-[0-9][0-9][0-9][0-9][0-9].gguf)
      set -- "${MODEL%-00001-of-*}"-[0-9][0-9][0-9][0-9][0-9]-of-"${MODEL##*-of-}" ;;
    *) set -- "$MODEL" ;;
  esac
  begin parts
  for FILE; do ls -lnLd "$FILE" 2>/dev/null; done
  done_with 0
  PART=0
  for FILE; do
    tell_head "$FILE" $PART
    PART=$((PART + 1))
  done
}

main() {
  [ -z "$WORKDIR" ] || cd "$WORKDIR" 2>/dev/null
  case $MODEL in
    "~") MODEL=$HOME ;;
    "~/"*) MODEL=$HOME/${MODEL#"~/"} ;;
    /*) ;;
    *) MODEL=./$MODEL ;;
  esac
  begin kind
  if [ -d "$MODEL" ]; then KIND=folder
  elif [ -f "$MODEL" ]; then KIND=file
  else KIND=none; fi
  printf '%s\n' $KIND
  may_read "$MODEL"
  done_with $?
  if [ $KIND = folder ]; then
    tell_file config.json
    tell_file hf_quant_config.json
    tell_index
    tell_sizes "$MODEL/"
  elif [ $KIND = file ]; then
    tell_parts
  fi
  printf '\n@relaunch %s end\n' "$TOKEN"
}

main; exit
